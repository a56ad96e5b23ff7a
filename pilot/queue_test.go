package pilot_test

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pilotage-grid/pilotage/pilot/master"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
)

// queue is the task queue as one site's master meets it: its rules,
// told in as few words as will do, in memory.
type queue struct {
	w        *world
	settings task.SiteSettings
	ttl      time.Duration
	perSlot  int // tasks handed out per slot

	tasks    map[task.ID]*queued
	order    []task.ID // by age
	files    map[task.LFN]*task.File
	producer map[task.LFN]task.ID

	term      task.Term
	master    task.PilotID
	gone      map[task.PilotID]bool
	leases    map[task.LeaseID]bool
	lastLease task.LeaseID
	revoked   []task.Revoked
	drain     []task.PilotID
	verdicts  map[task.AttemptID]task.Ack
	started   map[task.AttemptID]bool
	refused   map[task.Class]bool
	accepted  map[task.ID][]task.AttemptID // successes that counted, of every generation
	rejected  int
	remade    int
	refusals  []task.Refusal

	away   bool // nobody answers
	parked *call
	told   task.SyncReply

	lastSync task.Sync
	reports  uint64 // number of the last report
	replicas task.ReplicaSum
}

// call is a Sync under way.
type call struct {
	from  *node
	n     uint64
	sync  task.Sync
	until time.Time
}

type queuedState int

const (
	blocked queuedState = iota
	ready
	leased
	done
	failed
	cancelled
)

type queued struct {
	task.Task
	state      queuedState
	generation uint32
	lease      task.LeaseID
	number     int
	age        uint64
	failures   int
	winner     task.AttemptID
}

func newQueue(w *world) *queue {
	return &queue{
		w: w, ttl: 10 * time.Minute, perSlot: 4,
		settings: task.SiteSettings{Site: siteName, SE: "file:///se", Mode: "distributed", SiteScheduling: task.SiteScheduling{Prefill: 1}},
		tasks:    make(map[task.ID]*queued), files: make(map[task.LFN]*task.File), producer: make(map[task.LFN]task.ID),
		gone: make(map[task.PilotID]bool), leases: make(map[task.LeaseID]bool),
		verdicts: make(map[task.AttemptID]task.Ack), started: make(map[task.AttemptID]bool),
		refused: make(map[task.Class]bool), accepted: make(map[task.ID][]task.AttemptID),
	}
}

// submit adds tasks; inputs that no task makes are external files on the
// storage element.
func (q *queue) submit(tasks ...task.Task) {
	for _, t := range tasks {
		q.tasks[t.ID] = &queued{Task: t, generation: 1, number: 1, age: uint64(len(q.order))}
		q.order = append(q.order, t.ID)
		for _, output := range t.Outputs {
			q.producer[output.LFN] = t.ID
			q.files[output.LFN] = &task.File{LFN: output.LFN, Size: -1}
		}
	}
	for _, t := range tasks {
		for _, input := range t.Inputs {
			if q.files[input.LFN] == nil {
				q.files[input.LFN] = external(input.LFN)
			}
		}
	}
	q.review()
	q.wake()
}

func external(name task.LFN) *task.File {
	return &task.File{
		LFN: name, Size: task.MiB, Digest: digestOf(string(name)),
		Replicas: []task.Replica{{Site: siteName, URL: "file:///se/" + name.Local()}},
	}
}

func readable(f *task.File) bool { return len(f.Announced)+len(f.Replicas) > 0 }

func (q *queue) missing(t *queued) (missing []task.LFN) {
	for _, input := range t.Inputs {
		if !readable(q.files[input.LFN]) {
			missing = append(missing, input.LFN)
		}
	}
	return missing
}

// review moves tasks between blocked and ready, and opens a new generation of
// whatever made a file that is missing and needed.
func (q *queue) review() {
	for _, id := range q.order {
		t := q.tasks[id]
		missing := q.missing(t)
		if t.state == leased && q.stranded(t, missing) {
			q.revoked = append(q.revoked, task.Revoked{Lease: t.lease, Task: id})
			q.w.note("queue takes %s back: nobody makes its input", id.Name())
			t.state, t.lease = blocked, 0
		}
		if t.state != blocked && t.state != ready {
			continue
		}
		t.state = ready
		if len(missing) > 0 {
			t.state = blocked
		}
		for _, name := range missing {
			if maker := q.tasks[q.producer[name]]; maker != nil && maker.state == done {
				q.regenerate(maker)
			}
		}
	}
}

// stranded tells whether a leased task waits for an input that its site does
// not make (any more).
func (q *queue) stranded(t *queued, missing []task.LFN) bool {
	if q.isStarted(t.lease, t.ID) {
		return false
	}
	return slices.ContainsFunc(missing, func(name task.LFN) bool {
		maker := q.tasks[q.producer[name]]
		return maker == nil || maker.state != leased
	})
}

func (q *queue) isStarted(lease task.LeaseID, id task.ID) bool {
	for attempt := range q.started {
		if attempt.Task == id && attempt.Lease == lease {
			return true
		}
	}
	return false
}

func (q *queue) regenerate(t *queued) {
	t.state, t.generation, t.winner, t.failures = blocked, t.generation+1, task.AttemptID{}, 0
	q.remade++
	for _, output := range t.Outputs {
		if f := q.files[output.LFN]; !readable(f) {
			*f = task.File{LFN: f.LFN, Size: -1}
		}
	}
	q.w.note("queue opens generation %d of %s", t.generation, t.ID.Name())
	q.review()
}

// cancel ends a task as its user wishes.
func (q *queue) cancel(id task.ID) {
	t := q.tasks[id]
	if t.state == leased {
		q.revoked = append(q.revoked, task.Revoked{Lease: t.lease, Task: id, Cancel: true})
	}
	t.state = cancelled
	q.wake()
}

// recall wants an unstarted task back.
func (q *queue) recall(id task.ID) {
	if t := q.tasks[id]; t.state == leased {
		q.revoked = append(q.revoked, task.Revoked{Lease: t.lease, Task: id})
	}
	q.wake()
}

// claim gives a term to a pilot and tells it the open leases.
func (q *queue) claim(n *node, term task.Term) ([]task.Lease, []task.Revoked) {
	q.term, q.master, q.parked, q.told = term, n.id, nil, task.SyncReply{}
	var open []task.Lease
	for id := range q.lastLease {
		if q.leases[id+1] {
			open = append(open, q.lease(id+1))
		}
	}
	return open, slices.Clone(q.revoked)
}

// lease is a hand-out as far as it is open.
func (q *queue) lease(id task.LeaseID) task.Lease {
	l := task.Lease{ID: id, TTL: q.ttl}
	described := make(map[task.LFN]bool)
	for _, name := range q.order {
		t := q.tasks[name]
		if t.state != leased || t.lease != id {
			continue
		}
		l.Tasks = append(l.Tasks, task.LeasedTask{
			Task: t.Task, Generation: t.generation, Number: t.number, Age: t.age, Blocked: len(q.missing(t)) > 0,
		})
		for _, input := range t.Inputs {
			if !described[input.LFN] {
				described[input.LFN] = true
				l.Files = append(l.Files, *q.files[input.LFN])
			}
		}
	}
	return l
}

// arrive takes a call; the answer may come later.
func (q *queue) arrive(from *node, e master.CallSync, lostReply bool) {
	if q.parked != nil {
		c := q.parked
		q.parked = nil
		q.w.answerSync(c.from, master.SyncAnswered{N: c.n}) // ended by a newer one
	}
	s := overProtobuf(e.Sync)
	if s.Term != q.term {
		q.w.answerSync(from, master.SyncAnswered{N: e.N, Stale: true, Err: "another master is in office"})
		return
	}
	q.lastSync = s
	if s.Report.Seq > q.reports {
		q.reports = s.Report.Seq
		q.replicas.Add(s.Report.Replicas)
	}
	content := len(s.Outcomes)+len(s.Starts)+len(s.Returns)+len(s.Stored)+len(s.Lost)+len(s.Departed)+len(s.Refused)+len(s.Confirmed) > 0
	reply := q.serve(s)
	if lostReply {
		q.told = task.SyncReply{}
		q.w.answerSync(from, master.SyncAnswered{N: e.N, Err: "the connection broke"})
		return
	}
	standing := reply
	standing.Acks, standing.Leases = nil, nil
	if content || s.Hold == 0 || len(reply.Leases)+len(reply.Acks) > 0 || !reflect.DeepEqual(standing, q.told) {
		q.told = standing
		q.w.answerSync(from, master.SyncAnswered{N: e.N, Reply: reply})
		return
	}
	c := &call{from: from, n: e.N, sync: s, until: q.w.now.Add(s.Hold)}
	q.parked = c
	q.w.after(s.Hold, func() {
		if q.parked == c {
			q.parked = nil
			q.w.answerSync(from, master.SyncAnswered{N: e.N, Reply: q.serve(s)})
		}
	})
}

// wake looks whether a parked call gets something now.
func (q *queue) wake() {
	c := q.parked
	if c == nil || q.away {
		return
	}
	q.parked = nil
	c.sync.Hold = c.until.Sub(q.w.now)
	q.arrive(c.from, master.CallSync{N: c.n, Sync: c.sync}, false)
}

// overProtobuf sends a Sync over the wire to the queue and returns what comes out.
func overProtobuf(s task.Sync) task.Sync {
	data, err := proto.Marshal(taskpb.Sync(s))
	if err != nil {
		panic(err)
	}
	var message pb.SyncRequest
	if err := proto.Unmarshal(data, &message); err != nil {
		panic(err)
	}
	received, err := taskpb.FromSync(&message, s.Pilot)
	if err != nil {
		panic(err)
	}
	return received
}

func (q *queue) serve(s task.Sync) task.SyncReply {
	reply := task.SyncReply{Settings: q.settings, Drain: slices.Clone(q.drain)}
	reply.Acks = q.outcomes(s.Outcomes)
	q.stored(s.Stored)
	for _, start := range s.Starts {
		q.started[start.Attempt] = true
	}
	for _, back := range s.Returns {
		if t := q.tasks[back.Task]; t.state == leased && t.lease == back.Lease && t.generation == back.Generation {
			q.w.note("queue has %s back: %s", t.ID.Name(), back.Reason)
			t.state, t.lease = blocked, 0
		}
		q.confirm(back.Lease, back.Task)
	}
	for _, refusal := range s.Refused {
		q.refused[refusal.Class] = true
		q.refusals = append(q.refusals, refusal)
		q.w.note("queue notes a refusal of %q by %d pilots: %v", refusal.Class.Require, refusal.Pilots, refusal.Clauses)
	}
	for _, departure := range s.Departed {
		q.gone[departure.Pilot] = true
	}
	for _, lost := range s.Lost {
		q.lose(lost)
	}
	for _, c := range s.Confirmed {
		q.confirmed(c)
	}
	q.review()
	q.closeLeases()
	for _, id := range s.Leases {
		if !q.leases[id] {
			reply.Unknown = append(reply.Unknown, id)
		}
	}
	q.handOut(s)
	for id := range q.lastLease {
		if q.leases[id+1] && !slices.Contains(s.Leases, id+1) {
			reply.Leases = append(reply.Leases, q.lease(id+1))
		}
	}
	reply.Revoked = slices.Clone(q.revoked)
	reply.Check = q.unguarded()
	return reply
}

func (q *queue) closeLeases() {
	open := make(map[task.LeaseID]bool)
	for _, t := range q.tasks {
		if t.state == leased {
			open[t.lease] = true
		}
	}
	q.leases = open
}

// handOut leases ready tasks, and blocked ones whose makers the site holds.
func (q *queue) handOut(s task.Sync) {
	room := q.perSlot*s.Capacity.Slots + s.Capacity.Running
	for _, t := range q.tasks {
		if t.state == leased && len(q.missing(t)) == 0 {
			room--
		}
	}
	if s.Capacity.Slots == 0 || room <= 0 || q.settings.Draining {
		return
	}
	id := q.lastLease + 1
	taken := 0
	for _, name := range q.order {
		t := q.tasks[name]
		held := !slices.ContainsFunc(q.missing(t), func(name task.LFN) bool {
			maker := q.tasks[q.producer[name]]
			return maker == nil || maker.state != leased
		})
		if taken == room {
			break
		}
		if t.state > ready || !held || q.refused[t.Class()] {
			continue
		}
		t.state, t.lease = leased, id
		taken++
	}
	if taken > 0 {
		q.lastLease = id
		q.leases[id] = true
		q.w.note("queue leases %d tasks", taken)
	}
}

func (q *queue) outcomes(outcomes []task.Outcome) (acks []task.Ack) {
	for i := range outcomes {
		if ack, judged := q.outcome(&outcomes[i]); judged {
			acks = append(acks, ack)
		}
	}
	return acks
}

func (q *queue) outcome(o *task.Outcome) (task.Ack, bool) {
	if ack, known := q.verdicts[o.Attempt]; known {
		q.w.note("queue hears again of %s", attemptName(o.Attempt))
		return ack, true
	}
	ack, judged := q.judge(o)
	if judged {
		q.verdicts[o.Attempt] = ack
		q.w.note("queue judges %s of %s: %s", describe(o), attemptName(o.Attempt), verdictNames[ack.Verdict])
	}
	return ack, judged
}

var verdictNames = map[task.AckVerdict]string{
	task.AckAccepted: "accepted", task.AckDuplicate: "duplicate", task.AckStale: "stale", task.AckUnknown: "unknown",
}

func (q *queue) judge(o *task.Outcome) (task.Ack, bool) {
	t := q.tasks[o.Attempt.Task]
	ack := task.Ack{Attempt: o.Attempt, Verdict: task.AckAccepted, Winner: t.winner}
	holds := t.state == leased && t.lease == o.Attempt.Lease
	t.number = max(t.number, o.Number+1)
	switch {
	case o.Attempt.Generation < t.generation:
		ack.Verdict = task.AckStale
	case t.state == done || t.state == failed || t.state == cancelled:
		ack.Verdict = task.AckDuplicate
	case o.OK:
		match, wait := q.inputsMatch(t, o)
		if wait {
			return ack, false
		}
		if !match {
			q.rejected++
			ack.Verdict = task.AckStale
			if holds {
				t.state, t.lease = blocked, 0
			}
			break
		}
		q.succeed(t, o, holds)
		ack.Winner = o.Attempt
	case holds:
		t.state, t.lease = blocked, 0
		if o.Failure == task.KilledByUser {
			break
		}
		if t.failures++; t.failures > t.Retries {
			t.state = failed
		}
	}
	return ack, true
}

func (q *queue) inputsMatch(t *queued, o *task.Outcome) (match, wait bool) {
	for _, read := range o.Reads {
		f, maker := q.files[read.LFN], q.tasks[q.producer[read.LFN]]
		switch {
		case maker == nil || f.Producer == read.Producer || f.Digest == read.Digest:
		case f.Producer.IsZero() && maker.state < done && maker.generation == read.Producer.Generation:
			wait = true
		default:
			return false, false
		}
	}
	return !wait, wait
}

func (q *queue) succeed(t *queued, o *task.Outcome, holds bool) {
	if t.state == leased && !holds {
		q.revoked = append(q.revoked, task.Revoked{Lease: t.lease, Task: t.ID, Cancel: true})
	}
	t.state, t.lease, t.winner = done, 0, o.Attempt
	q.accepted[t.ID] = append(q.accepted[t.ID], o.Attempt)
	for _, output := range o.Outputs {
		f := q.files[output.LFN]
		if readable(f) {
			continue // of an earlier generation
		}
		*f = task.File{
			LFN: output.LFN, Size: output.Size, Digest: output.Digest, Producer: o.Attempt, Announced: []task.Site{siteName},
		}
		if output.URL != "" {
			f.Replicas = []task.Replica{{Site: siteName, URL: output.URL}}
		}
	}
}

func (q *queue) stored(stored []task.Stored) {
	for _, s := range stored {
		f := q.files[s.LFN]
		replica := task.Replica{Site: siteName, URL: s.URL}
		if f.Producer == s.Attempt && !f.Producer.IsZero() && !slices.Contains(f.Replicas, replica) {
			f.Replicas = append(f.Replicas, replica)
			q.w.note("queue knows %s as stored", s.LFN.Local())
		}
	}
}

func (q *queue) lose(lost task.LostFile) {
	f := q.files[lost.LFN]
	if f.Digest != lost.Digest {
		return
	}
	f.Announced = nil
	q.w.note("queue hears that %s is lost", lost.LFN.Local())
}

func (q *queue) confirm(lease task.LeaseID, id task.ID) {
	q.revoked = slices.DeleteFunc(q.revoked, func(r task.Revoked) bool { return r.Lease == lease && r.Task == id })
}

// confirmed takes a confirmed recall for a return, unless the task was started.
func (q *queue) confirmed(r task.Revoked) {
	q.confirm(r.Lease, r.Task)
	t := q.tasks[r.Task]
	if r.Cancel || t.state != leased || t.lease != r.Lease {
		return
	}
	if q.isStarted(r.Lease, r.Task) {
		return
	}
	q.w.note("queue counts %s as returned", r.Task.Name())
	t.state, t.lease = blocked, 0
}

// unguarded are files in caches only whose maker is gone.
func (q *queue) unguarded() (files []task.File) {
	for _, id := range q.order {
		for _, output := range q.tasks[id].Outputs {
			if f := q.files[output.LFN]; len(f.Announced) > 0 && len(f.Replicas) == 0 && q.gone[f.Producer.Pilot] {
				files = append(files, *f)
			}
		}
	}
	return files
}

// finished tells whether every task is over.
func (q *queue) finished() bool {
	for _, t := range q.tasks {
		if t.state < done {
			return false
		}
	}
	return true
}

func describe(o *task.Outcome) string {
	if o.OK {
		return "success"
	}
	return o.Failure.String()
}

func attemptName(a task.AttemptID) string {
	return fmt.Sprintf("%s/g%d-%s-%d", a.Task.Name(), a.Generation, a.Pilot, a.Counter)
}

// lapse takes every lease for expired: its tasks are offered again.
func (q *queue) lapse() {
	for _, id := range q.order {
		if t := q.tasks[id]; t.state == leased {
			t.state, t.lease = blocked, 0
		}
	}
	q.w.note("queue takes all leases for lapsed")
	q.review()
	q.closeLeases()
	q.wake()
}
