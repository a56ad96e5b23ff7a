package grid

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/pilotage-grid/pilotage/pilot/master"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	"github.com/pilotage-grid/pilotage/sim/server"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/workflow"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/serving"
	"github.com/pilotage-grid/pilotage/taskqueue/store/mem"
)

// queue is the task queue over its store in memory. It answers calls in the order in which
// they arrive.
type queue struct {
	*world
	*server.Queue
	workflow task.WorkflowID
	requests int
}

// holds are those of a queue to which it costs nothing to look again.
var holds = serving.Holds{Sync: serving.DefaultHolds.Sync}

func newQueue(w *world) *queue {
	q := &queue{world: w}
	q.Queue = server.Open(q, mem.New(), w.random, taskqueue.DefaultConfig(), holds)
	return q
}

// Times, After, Update and Stir satisfy server.Host.
func (q *queue) Times() (service taskqueue.Instant, machine, wall time.Time) {
	return q.clock(), q.Now(), q.Now()
}

func (q *queue) After(d time.Duration, do func()) { q.timeline.After(d, do) }

func (q *queue) Update(change func(*taskqueue.Turn) error) error {
	effects, err := q.Queue.Update(change)
	if len(effects.Workflows) > 0 && err == nil {
		q.look()
	}
	return err
}

// Stir has nothing to do: all sites have masters.
func (q *queue) Stir() {}

// clock starts an hour in: a mark of 0 means never.
func (q *queue) clock() taskqueue.Instant {
	return taskqueue.Instant(time.Hour + q.timeline.Now())
}

// look notes the end of the workflow.
func (q *queue) look() {
	err := q.View(func(t *taskqueue.Turn) error {
		found, err := t.Workflows().Load(q.workflow)
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
	return q.Update(func(t *taskqueue.Turn) error {
		_, err := q.Rules.AddSite(t, record)
		return err
	})
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
		err := q.Update(func(t *taskqueue.Turn) error {
			submitted, err := q.Rules.Submit(t, submission)
			q.workflow = submitted.Workflow
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (q *queue) claim(n *node) (result taskqueue.ClaimResult, err error) {
	q.requests++
	err = q.Update(func(t *taskqueue.Turn) (err error) {
		result, err = q.Rules.Claim(t, taskqueue.Claim{Site: n.site.Name, Pilot: n.id, Expected: n.site.term})
		return err
	})
	return result, err
}

// call takes a Sync that a master sends.
func (q *queue) call(from *node, c master.CallSync) {
	q.requests++
	q.timeline.After(from.site.QueueLatency, func() {
		if !from.alive {
			return
		}
		call := &server.Call{By: &from.connection, Answer: func(reply *task.PullReply, err error) {
			answered := master.SyncAnswered{N: c.N}
			if err != nil {
				var stale *taskqueue.StaleTermError
				answered.Err, answered.Stale = err.Error(), errors.As(err, &stale)
			} else {
				answered.Reply = reply.SyncReply
			}
			q.timeline.After(from.site.QueueLatency, func() { from.stepMaster(answered) })
		}}
		q.Sync(call, &c.Sync)
		q.Serve(call)
	})
}

// tick does what only time brings about, whenever it is due.
func (q *queue) tick() {
	next, err := q.Tick()
	if err != nil {
		q.fail("tick: %w", err)
		return
	}
	q.timeline.After(max(next.Sub(q.clock()), 10*time.Millisecond), q.tick)
}

// deliver takes outcomes of a pilot without a master.
func (q *queue) deliver(n *node, d worker.DeliverToQueue) {
	q.requests++
	q.timeline.After(n.site.QueueLatency, func() {
		if !n.alive {
			return
		}
		delivered, err := q.Deliver(n.site.Name, n.id, &d)
		if err != nil {
			q.fail("deliver: %w", err)
			return
		}
		q.timeline.After(n.site.QueueLatency, func() { n.stepWorker(delivered) })
	})
}
