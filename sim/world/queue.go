package world

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/sim/server"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/serving"
	"github.com/pilotage-grid/pilotage/taskqueue/store/tables"
)

// queue is the task queue: the product's rules over its tables above a model of a
// disk, with the product's serving around them.
type queue struct {
	*timeline
	*server.Queue
	world  *world
	link   link // by which calls come
	disk   *disk
	store  *tables.Store
	config taskqueue.Config
	away   bool // nobody answers, and its clock stands still
	stood  time.Duration
	gone   time.Duration                     // since when it is away, or its disk takes nothing
	lag    time.Duration                     // that its disk takes for a commit
	skew   time.Duration                     // by which its wall clock is wrong
	looked map[task.WorkflowID]time.Duration // when a workflow's folders were last looked through

	glance     *taskqueue.Turn    // that all reads share for now
	flow       taskqueue.Workflow // that was looked at last
	flowWrites int                // when
	writes     int                // Updates so far
}

func newQueue(w *world, config taskqueue.Config) *queue {
	config.Site.MarkEvery = serving.MarkEvery(config) // as the product's server does
	q := &queue{timeline: w.timeline, world: w, disk: newDisk(), config: config, looked: make(map[task.WorkflowID]time.Duration)}
	q.link = link{timeline: w.timeline, queue: q}
	q.open()
	return q
}

// open begins as a new process does: with what the disk has, and nothing else.
func (q *queue) open() {
	store, err := tables.Open(q.disk, q.disk)
	if err != nil {
		q.judge.Fatalf("the queue's store does not open: %v", err)
	}
	q.writes++
	q.store, q.Queue = store, server.Open(q, store, q.random, q.config, serving.DefaultHolds)
}

// Times, After, Update and Stir satisfy server.Host.
func (q *queue) Times() (service taskqueue.Instant, machine, wall time.Time) {
	return q.clock(), q.net.Now(), q.net.Now().Add(q.skew)
}

func (q *queue) After(d time.Duration, do func()) { q.after(d, do) }

// clock stands still while the queue is away or its disk takes nothing, and starts an
// hour in: a mark of 0 means never.
func (q *queue) clock() taskqueue.Instant {
	at := q.now()
	if q.away || q.stuck() {
		at = q.gone
	}
	return taskqueue.Instant(time.Hour + at - q.stood)
}

// works tells whether the queue does what nobody calls it for.
func (q *queue) works() bool { return !q.away && !q.stuck() }

// stuck tells whether the disk takes nothing.
func (q *queue) stuck() bool { return q.disk.full || q.disk.sick }

// diskFails has the disk be full, or not sync, or neither.
func (q *queue) diskFails(full, sick bool) {
	before := q.stuck()
	q.disk.full, q.disk.sick = full, sick
	switch {
	case q.away || before == q.stuck():
	case before:
		q.note("the queue's disk takes commits again")
		q.stood += q.now() - q.gone
	default:
		q.note("the queue's disk takes no commits: full %v", full)
		q.gone = q.now()
	}
}

// Update applies rules in one transaction and wakes whom it concerns.
func (q *queue) Update(change func(*taskqueue.Turn) error) error {
	if q.away {
		return errPower // it went away in the midst of what it did
	}
	q.writes++
	effects, err := q.Queue.Update(change)
	if errors.Is(err, errPower) && !q.away {
		q.note("the power of the queue's machine fails at a commit")
		q.stop()
		q.after(time.Second+time.Duration(q.random.Int64N(int64(time.Minute))), q.startAgain)
	}
	if err != nil {
		return err
	}
	for _, s := range effects.Sites {
		q.note("%s is in mode %s, before %q: %s", s.Site, s.Mode, s.Before, s.Why)
	}
	for i := range effects.News {
		if n := &effects.News[i]; n.Kind == taskqueue.NewsPilotDied {
			q.note("%s is taken for dead: %s", n.Pilot, n.Text)
		}
	}
	return nil
}

// must is an update that has to succeed, unless the disk does not let it: false.
func (q *queue) must(change func(*taskqueue.Turn) error) bool {
	err := q.Update(change)
	if err != nil && !ofTheDisk(err) {
		q.judge.Fatalf("the queue: %v", err)
	}
	return err == nil
}

// ofTheDisk tells whether the disk, and no rule, has refused a change.
func ofTheDisk(err error) bool {
	return errors.Is(err, errPower) || errors.Is(err, errFull) || errors.Is(err, errSync)
}

// view reads what the queue keeps.
func (q *queue) view(read func(*taskqueue.Turn) error) {
	view := q.View
	if q.glance != nil {
		view = func(read func(*taskqueue.Turn) error) error { return read(q.glance) }
	}
	if err := view(read); err != nil {
		q.judge.Fatalf("look into the queue: %v", err)
	}
}

// atAGlance has all reads of a judge share one View: nothing happens meanwhile.
func (q *queue) atAGlance(judge func()) {
	q.view(func(t *taskqueue.Turn) error {
		q.glance = t
		defer func() { q.glance = nil }()
		judge()
		return nil
	})
}

// read reads one thing of what the queue keeps.
func read[T any](q *queue, of func(*taskqueue.Turn) (T, error)) (found T) {
	q.view(func(t *taskqueue.Turn) (err error) {
		found, err = of(t)
		return err
	})
	return found
}

// first is what was found, if anything.
func first[T any](found []T) (one T) {
	if len(found) > 0 {
		one = found[0]
	}
	return one
}

// workflow is looked at after every event where something is waited for.
func (q *queue) workflow(id task.WorkflowID) taskqueue.Workflow {
	if q.flow.ID != id || q.flowWrites != q.writes {
		q.flow = first(read(q, func(t *taskqueue.Turn) ([]taskqueue.Workflow, error) { return t.Workflows().Load(id) }))
		q.flowWrites = q.writes
	}
	return q.flow
}

// workflows returns those of a name, of all names for "", at most 1,000.
func (q *queue) workflows(name string) []taskqueue.Workflow {
	return read(q, func(t *taskqueue.Turn) ([]taskqueue.Workflow, error) { return t.Workflows().List("", name, "", 1000) })
}

func (q *queue) tasks(id task.WorkflowID) []taskqueue.TaskState {
	return read(q, func(t *taskqueue.Turn) ([]taskqueue.TaskState, error) { return t.Tasks().InWorkflow(id, 0, 1_000_000) })
}

func (q *queue) attempts(id task.ID) []taskqueue.Attempt {
	return read(q, func(t *taskqueue.Turn) ([]taskqueue.Attempt, error) { return t.Attempts().OfTask(id) })
}

func (q *queue) files() []taskqueue.FileRecord {
	return read(q, func(t *taskqueue.Turn) ([]taskqueue.FileRecord, error) { return t.Files().List("", "", 1_000_000) })
}

func (q *queue) site(name task.Site) taskqueue.SiteRecord {
	return first(read(q, func(t *taskqueue.Turn) ([]taskqueue.SiteRecord, error) { return t.Sites().Load(name) }))
}

func (q *queue) pilot(id task.PilotID) taskqueue.PilotRecord {
	return first(read(q, func(t *taskqueue.Turn) ([]taskqueue.PilotRecord, error) { return t.Pilots().Load(id) }))
}

func (q *queue) alive(name task.Site) []task.PilotID {
	return read(q, func(t *taskqueue.Turn) ([]task.PilotID, error) {
		return t.Pilots().IDsOfSite(name, taskqueue.PilotAlive, taskqueue.PilotDraining)
	})
}

func (q *queue) leasesOf(name task.Site) []taskqueue.Lease {
	return read(q, func(t *taskqueue.Turn) ([]taskqueue.Lease, error) { return t.Leases().OfSite(name) })
}

// stop takes the queue away, as SIGKILL and a power cut do; start brings it back
// with what its disk has. Its clock stands still meanwhile, and every call under way
// fails.
func (q *queue) stop() {
	q.note("the queue is away")
	if !q.stuck() {
		q.gone = q.now()
	}
	q.away, q.disk.power = true, noCut
	q.Kill()
}

func (q *queue) start() {
	q.note("the queue is back")
	q.disk.full, q.disk.sick = false, false
	q.away, q.stood = false, q.stood+q.now()-q.gone
	q.open()
	for _, s := range q.world.sites {
		if record := q.site(s.name); record.Name != "" {
			q.Desk.Assume(s.name, record.Term, q.clock())
		}
	}
	q.must(func(t *taskqueue.Turn) error { return q.Rules.LookAgain(t) })
}

// startAgain brings it back unless somebody else has.
func (q *queue) startAgain() {
	if q.away {
		q.start()
	}
}

// intact tells whether the queue's disk holds what was written, as pilotage taskqueue
// --verify does.
func (q *queue) intact() bool {
	store, err := tables.Open(q.disk, q.disk)
	if err == nil {
		_, err = store.Verify(context.Background())
	}
	return err == nil
}

// backup is a copy of the queue's store and of its clock.
type backup struct {
	disk  *disk
	clock taskqueue.Instant
}

func (q *queue) backup() backup {
	q.note("the queue's store is copied")
	return backup{q.disk.copied(), q.clock()}
}

// restore starts the queue that is away over a copy: it knows nothing of what
// came after it.
func (q *queue) restore(b backup) {
	q.note("it goes on from the copy")
	q.disk = b.disk.copied()
	for _, s := range q.world.sites {
		s.undone = slices.Clone(s.deleted)
	}
	q.stood += time.Duration(q.clock() - b.clock) // by start the clock goes on as in the copy
	q.start()
}

// tick does what only time brings about, whenever it is due.
func (q *queue) tick() {
	next := q.clock().Add(time.Second)
	if q.works() {
		due, err := q.Tick()
		if q.noted(err); err == nil {
			next = due
		}
	}
	q.after(max(next.Sub(q.clock()), 10*time.Millisecond), q.tick)
}
