package manysites

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/pilotage-grid/pilotage/sim"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/mem"
)

// queue is the task queue: the product's rules over its store in memory, and a
// server that takes one call after the other.
type queue struct {
	*world
	store    taskqueue.Store
	rules    *taskqueue.Rules
	lined    []func() time.Duration // calls that wait for the server
	serving  bool
	desks    map[task.Site]*desk
	newest   task.LeaseID
	supplied int // tasks submitted
	parts    int // of the workflow that is being submitted
	open     []task.WorkflowID
	started  time.Duration
}

// desk is what the queue's server knows of a site's calls.
type desk struct {
	parked *call
	told   task.SyncReply
	ever   bool
	looks  bool // a look for news is due
	looked time.Duration
}

// call is a Sync on its way.
type call struct {
	site   *site
	number uint64
	sync   task.Sync
	sent   time.Duration
	end    *sim.Event
}

func newQueue(w *world) *queue {
	return &queue{world: w, store: mem.NewInPlace(), rules: taskqueue.NewRules(w.config.Queue), desks: make(map[task.Site]*desk)}
}

// update applies rules in one transaction and wakes the sites that it concerns.
func (q *queue) update(change func(*taskqueue.Turn) error) error {
	var effects taskqueue.Effects
	began := q.watch()
	err := q.store.Update(context.Background(), func(tx taskqueue.Tx) error {
		return change(&taskqueue.Turn{Tx: tx, Clock: q.clock(), Wall: q.now(), Random: q.random, Effects: &effects})
	})
	q.sums.Cost += q.watch() - began
	if err != nil {
		return err
	}
	for _, s := range q.sites {
		if _, woken := effects.Wake[string(s.name)]; effects.WakeAll || woken {
			q.wake(s.name)
		}
	}
	return nil
}

func (q *queue) watch() time.Duration {
	if q.config.Stopwatch == nil {
		return 0
	}
	return q.config.Stopwatch()
}

// clock starts an hour in: a mark of 0 means never.
func (q *queue) clock() taskqueue.Instant {
	return taskqueue.Instant(time.Hour + q.timeline.Now())
}

// line has a call served when those before it are; do tells how long it takes.
func (q *queue) line(do func() time.Duration) {
	q.lined = append(q.lined, do)
	if !q.serving {
		q.serve()
	}
}

func (q *queue) serve() {
	if len(q.lined) == 0 {
		q.serving = false
		q.lined = nil
		return
	}
	do := q.lined[0]
	q.lined[0] = nil
	q.lined = q.lined[1:]
	q.serving = true
	takes := do()
	q.sums.Served += takes
	q.timeline.After(takes, q.serve)
}

// place puts a site and its pilots into the queue. Their registrations are not
// played: records say that they are members and that their master has met them.
func (q *queue) place(s *site) error {
	q.desks[s.name] = &desk{}
	record := taskqueue.SiteRecord{Name: s.name, Prefill: s.config.Prefill, RoundEvery: s.config.RoundEvery}
	if record.Prefill == 0 {
		record.Prefill = taskqueue.NoPrefill
	}
	return q.update(func(t *taskqueue.Turn) error {
		if _, err := q.rules.AddSite(t, record); err != nil {
			return err
		}
		registered, err := q.rules.Register(t, taskqueue.Registration{Site: s.name, Peer: s.peer(0), Slots: 1, Resources: node})
		if err != nil {
			return err
		}
		s.term = registered.Term
		first, err := t.Pilots().Load(registered.Pilot)
		if err != nil || len(first) == 0 {
			return fmt.Errorf("load the first pilot: %w", err)
		}
		members := make([]taskqueue.PilotRecord, s.config.Pilots)
		for i := range members {
			members[i] = first[0]
			members[i].Met = registered.Term.Epoch
			if i > 0 {
				members[i].ID, members[i].Peer = task.PilotID(fmt.Sprintf("p-%03d.%05d", s.index, i)), s.peer(i)
			}
			s.pilots[i].id = members[i].ID
		}
		if err := t.Pilots().Save(members...); err != nil {
			return err
		}
		sites, err := t.Sites().Load(s.name)
		if err != nil || len(sites) == 0 {
			return fmt.Errorf("load the site: %w", err)
		}
		sites[0].Pilots, sites[0].Registered = len(members), len(members)
		return t.Sites().Save(sites[0])
	})
}

// node is what a pilot offers, and what a task needs of it.
var node = task.Resources{Cores: 1, Memory: task.GiB}

// call takes a Sync that a master sends.
func (q *queue) call(c *call) {
	q.sums.Requests++
	c.sent = q.timeline.Now()
	q.timeline.After(q.config.QueueLatency, func() {
		q.line(func() time.Duration { return q.arrive(c) })
	})
}

func (q *queue) arrive(c *call) time.Duration {
	d := q.desks[c.site.name]
	if before := d.parked; before != nil {
		d.parked = nil
		q.timeline.Cancel(before.end)
		q.answer(before, task.SyncReply{}, 0)
	}
	reply, takes := q.sync(c)
	if content := len(c.sync.Outcomes)+len(c.sync.Starts)+len(c.sync.Returns)+len(c.sync.Confirmed) > 0; content || d.news(&reply) || c.sync.Hold <= 0 {
		q.answer(c, reply, takes)
		return takes
	}
	d.parked, d.looked = c, q.timeline.Now()
	c.end = q.timeline.After(c.sync.Hold, func() {
		d.parked = nil
		q.answer(c, reply, 0)
	})
	return takes
}

// sync applies the rules to a call and tells what that costs the server.
func (q *queue) sync(c *call) (task.SyncReply, time.Duration) {
	var reply task.SyncReply
	began := q.sums.Cost
	err := q.update(func(t *taskqueue.Turn) (err error) {
		reply, err = q.rules.Sync(t, c.sync)
		return err
	})
	if err != nil {
		q.fail("sync of %s: %w", c.site.name, err)
		return reply, 0
	}
	handed := 0
	for _, lease := range reply.Leases {
		if lease.ID > q.newest { // else it is told again
			handed += len(lease.Tasks)
		}
	}
	for _, lease := range reply.Leases {
		q.newest = max(q.newest, lease.ID)
	}
	for _, ack := range reply.Acks {
		if ack.Verdict == task.AckAccepted {
			q.done++
		}
	}
	if handed > 0 {
		q.sums.HandOuts = append(q.sums.HandOuts, HandOut{
			At: q.timeline.Now(), Tasks: handed, Took: q.timeline.Now() - c.sent, Cost: q.sums.Cost - began,
		})
		q.sums.Handed += handed
	}
	service := q.config.Service
	return reply, service.Call + time.Duration(handed)*service.Handed + time.Duration(len(c.sync.Outcomes))*service.Outcome
}

// wake has a site's parked Sync looked at again, not more often than the
// product's server does.
func (q *queue) wake(name task.Site) {
	const pause = 20 * time.Millisecond
	d := q.desks[name]
	if d.parked == nil || d.looks {
		return
	}
	d.looks = true
	q.timeline.After(d.looked+pause-q.timeline.Now(), func() {
		q.line(func() time.Duration {
			d.looks = false
			c := d.parked
			if c == nil {
				return 0
			}
			d.looked = q.timeline.Now()
			reply, takes := q.sync(c)
			if d.news(&reply) {
				d.parked = nil
				q.timeline.Cancel(c.end)
				q.answer(c, reply, takes)
			}
			return takes
		})
	})
}

// news tells whether a reply holds more than what the master was last told.
func (d *desk) news(reply *task.SyncReply) bool {
	return len(reply.Leases)+len(reply.Acks) > 0 || !d.ever || !reflect.DeepEqual(d.told, standing(reply))
}

func standing(reply *task.SyncReply) task.SyncReply {
	s := *reply
	s.Leases, s.Acks, s.ReportSeq = nil, nil, 0
	return s
}

func (q *queue) answer(c *call, reply task.SyncReply, takes time.Duration) {
	if d := q.desks[c.site.name]; reply.Settings.Site != "" {
		d.told, d.ever = standing(&reply), true
	}
	if n := len(q.sums.HandOuts); n > 0 && len(reply.Leases) > 0 {
		q.sums.HandOuts[n-1].Took += takes + q.config.QueueLatency
	}
	q.timeline.After(takes+q.config.QueueLatency, func() { c.site.answered(c.number, reply) })
}

// tick does what only time brings about.
func (q *queue) tick() {
	var next taskqueue.Instant
	err := q.update(func(t *taskqueue.Turn) (err error) {
		if err := q.rules.Tick(t); err != nil {
			return err
		}
		next, err = q.rules.Deadline(t)
		return err
	})
	if err = errors.Join(err, q.clear()); err != nil {
		q.fail("tick: %w", err)
		return
	}
	q.timeline.After(max(next.Sub(q.clock()), 10*time.Millisecond), q.tick)
}
