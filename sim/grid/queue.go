package grid

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/pilotage-grid/pilotage/pilot/master"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	"github.com/pilotage-grid/pilotage/sim"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/workflow"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/mem"
)

// queue is the task queue: the product's rules over its store in memory. It
// answers calls in the order in which they arrive, and parks a Sync that it has
// no news for, as the product's server does.
type queue struct {
	*world
	store    taskqueue.Store
	rules    *taskqueue.Rules
	parked   map[task.Site]*call
	told     map[task.Site]task.SyncReply
	workflow task.WorkflowID
	requests int
	ticking  *sim.Event
}

// call is a Sync that waits for news.
type call struct {
	from   *node
	number uint64
	sync   task.Sync
	reply  task.SyncReply // without news, for its end
	end    *sim.Event
}

func newQueue(w *world) *queue {
	return &queue{
		world: w, store: mem.New(), rules: taskqueue.NewRules(taskqueue.DefaultConfig()),
		parked: make(map[task.Site]*call), told: make(map[task.Site]task.SyncReply),
	}
}

// update applies rules in one transaction and wakes the sites that it concerns.
func (q *queue) update(change func(*taskqueue.Turn) error) error {
	var effects taskqueue.Effects
	err := q.store.Update(context.Background(), func(tx taskqueue.Tx) error {
		return change(&taskqueue.Turn{Tx: tx, Clock: q.clock(), Wall: q.now(), Random: q.random, Effects: &effects})
	})
	if err != nil {
		return err
	}
	for _, s := range q.sites {
		if _, woken := effects.Wake[string(s.Name)]; effects.WakeAll || woken {
			q.timeline.After(0, func() { q.wake(s.Name) })
		}
	}
	if len(effects.Workflows) > 0 {
		q.look()
	}
	return nil
}

// clock starts an hour in: a mark of 0 means never.
func (q *queue) clock() taskqueue.Instant {
	return taskqueue.Instant(time.Hour + q.timeline.Now())
}

// look notes the end of the workflow.
func (q *queue) look() {
	err := q.store.View(context.Background(), func(tx taskqueue.Tx) error {
		found, err := tx.Workflows().Load(q.workflow)
		if err != nil || len(found) == 0 {
			return err
		}
		counts := found[0].Counts
		q.done = counts[task.Done]
		q.over = q.over || found[0].Sealed && counts[task.Done] == found[0].Total()
		for _, bad := range []task.State{task.Failed, task.Cancelled, task.Quarantined} {
			if counts[bad] > 0 {
				return fmt.Errorf("%d tasks are %s; the last trouble with files: %s", counts[bad], bad, cmp.Or(q.trouble, "none"))
			}
		}
		return nil
	})
	if err != nil {
		q.fail("look at the workflow: %w", err)
	}
}

func (q *queue) addSite(s *site) error {
	record := taskqueue.SiteRecord{Name: s.Name, SiteSettings: taskqueue.SiteSettings{SE: "file:///" + string(s.Name), RemoteRead: true, Prefill: s.Prefill, RoundEvery: s.RoundEvery, Solver: s.Solver, Rank: q.config.Rank, Replicate: s.Replicate, LocalityWait: s.LocalityWait}}
	if s.Prefill < 0 {
		record.Prefill = taskqueue.NoPrefill
	}
	if s.LocalityWait < 0 {
		record.LocalityWait = taskqueue.NoLocalityWait
	}
	return q.update(func(t *taskqueue.Turn) error {
		_, err := q.rules.AddSite(t, record)
		return err
	})
}

func (q *queue) settings(s *site) (settings task.SiteSettings) {
	err := q.store.View(context.Background(), func(tx taskqueue.Tx) error {
		found, err := tx.Sites().Load(s.Name)
		if err == nil {
			settings = q.rules.Settings(found[0])
		}
		return err
	})
	if err != nil {
		q.fail("settings of %s: %w", s.Name, err)
	}
	return settings
}

// part is how many tasks one submission carries.
const part = 1000

func (q *queue) submit(plan *workflow.Plan, external []task.File) error {
	for from, number := 0, 0; from < len(plan.Tasks); from, number = from+part, number+1 {
		upto := min(from+part, len(plan.Tasks))
		submission := taskqueue.Submission{
			Key: "simulated", Name: plan.Name, Part: number, More: upto < len(plan.Tasks), Tasks: plan.Tasks[from:upto],
		}
		if number == 0 {
			submission.Files, submission.Outputs = external, plan.Outputs
		}
		err := q.update(func(t *taskqueue.Turn) error {
			submitted, err := q.rules.Submit(t, submission)
			q.workflow = submitted.Workflow
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (q *queue) register(n *node) (registered taskqueue.Registered, err error) {
	q.requests++
	err = q.update(func(t *taskqueue.Turn) (err error) {
		registered, err = q.rules.Register(t, taskqueue.Registration{
			Site: n.site.Name, Peer: n.peer, PilotDescription: taskqueue.PilotDescription{
				Slots: n.Slots, Resources: n.resources(), Host: string(n.peer),
				Addresses: []string{"/memory/" + string(n.peer)}, Ends: q.now().Add(10 * 365 * 24 * time.Hour),
			},
		})
		return err
	})
	return registered, err
}

func (q *queue) claim(n *node) (result taskqueue.ClaimResult, err error) {
	q.requests++
	err = q.update(func(t *taskqueue.Turn) (err error) {
		result, err = q.rules.Claim(t, taskqueue.Claim{Site: n.site.Name, Pilot: n.id, Expected: n.site.term})
		return err
	})
	return result, err
}

// call takes a Sync that a master sends.
func (q *queue) call(from *node, c master.CallSync) {
	q.requests++
	q.timeline.After(from.site.QueueLatency, func() {
		if from.alive {
			q.arrive(&call{from: from, number: c.N, sync: c.Sync})
		}
	})
}

func (q *queue) arrive(c *call) {
	name := c.from.site.Name
	if before := q.parked[name]; before != nil {
		delete(q.parked, name)
		q.timeline.Cancel(before.end)
		q.answer(before, before.reply, nil)
	}
	reply, err := q.sync(c)
	if err != nil || bringsNews(&c.sync) || q.news(name, &reply) || c.sync.Hold <= 0 {
		q.answer(c, reply, err)
		return
	}
	q.parked[name], c.reply = c, reply
	c.end = q.timeline.After(min(c.sync.Hold, 20*time.Second), func() {
		delete(q.parked, name)
		q.answer(c, reply, nil)
	})
}

func (q *queue) sync(c *call) (reply task.SyncReply, err error) {
	err = q.update(func(t *taskqueue.Turn) (err error) {
		reply, err = q.rules.Sync(t, c.sync)
		return err
	})
	return reply, err
}

// wake looks again for a site whose Sync is parked.
func (q *queue) wake(name task.Site) {
	c := q.parked[name]
	if c == nil || !c.from.alive {
		return
	}
	if reply, err := q.sync(c); err != nil || q.news(name, &reply) {
		delete(q.parked, name)
		q.timeline.Cancel(c.end)
		q.answer(c, reply, err)
	}
}

func bringsNews(s *task.Sync) bool {
	return len(s.Outcomes)+len(s.Starts)+len(s.Returns)+len(s.Stored)+len(s.Lost)+len(s.Departed)+
		len(s.Refused)+len(s.Confirmed)+len(s.Report.SEReads) > 0
}

// news tells whether a reply holds more than what the master was last told.
func (q *queue) news(name task.Site, reply *task.SyncReply) bool {
	if len(reply.Leases)+len(reply.Acks) > 0 {
		return true
	}
	told, ever := q.told[name]
	return !ever || !reflect.DeepEqual(told, standing(reply))
}

// standing is what a reply says of the state of things.
func standing(reply *task.SyncReply) task.SyncReply {
	s := *reply
	s.Leases, s.Acks, s.ReportSeq = nil, nil, 0
	return s
}

func (q *queue) answer(c *call, reply task.SyncReply, err error) {
	answered := master.SyncAnswered{N: c.number, Reply: reply}
	if err != nil {
		var stale *taskqueue.StaleTermError
		answered.Err, answered.Stale = err.Error(), errors.As(err, &stale)
	} else {
		q.told[c.from.site.Name] = standing(&reply)
	}
	q.timeline.After(c.from.site.QueueLatency, func() { c.from.stepMaster(answered) })
}

// tick does what only time brings about, whenever it is due.
func (q *queue) tick() {
	if err := q.update(func(t *taskqueue.Turn) error { return q.rules.Tick(t) }); err != nil {
		q.fail("tick: %w", err)
		return
	}
	var next taskqueue.Instant
	err := q.update(func(t *taskqueue.Turn) (err error) {
		next, err = q.rules.Deadline(t)
		return err
	})
	if err != nil {
		q.fail("tick: %w", err)
		return
	}
	q.ticking = q.timeline.After(max(next.Sub(q.clock()), 10*time.Millisecond), q.tick)
}

// deliver takes outcomes of a pilot without a master.
func (q *queue) deliver(n *node, d worker.DeliverToQueue) {
	q.requests++
	q.timeline.After(n.site.QueueLatency, func() {
		if !n.alive {
			return
		}
		delivered := worker.DeliveredToQueue{}
		err := q.update(func(t *taskqueue.Turn) (err error) {
			delivered.Acks, err = q.rules.Deliver(t, taskqueue.Delivery{Site: n.site.Name, Pilot: n.id, Outcomes: d.Outcomes, Stored: d.Stored})
			return err
		})
		if err != nil {
			q.fail("deliver: %w", err)
			return
		}
		for _, s := range d.Stored {
			delivered.Stored = append(delivered.Stored, s.Output())
		}
		q.timeline.After(n.site.QueueLatency, func() { n.stepWorker(delivered) })
	})
}
