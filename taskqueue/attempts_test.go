package taskqueue_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// numbers are the display numbers of a task's attempts, by their pilots' counters.
// No two may be the same.
func (g *grid) numbers(id task.ID) map[uint64]int {
	g.t.Helper()
	numbers, taken := make(map[uint64]int), make(map[int]bool)
	g.view(func(t *taskqueue.Turn) error {
		attempts, err := t.Attempts().OfTask(id)
		for i := range attempts {
			o := &attempts[i].Outcome
			if taken[o.Number] || o.Number < 1 {
				g.t.Errorf("attempt %s of %s is a%d, as another one or none", o.Attempt, id, o.Number)
			}
			taken[o.Number], numbers[o.Attempt.Counter] = true, o.Number
		}
		return err
	})
	return numbers
}

// One number names one attempt of a task, whatever masters and pilots take theirs
// for: the queue keeps the one that it is told, unless another attempt has it.
func TestOneNumberNamesOneAttempt(t *testing.T) {
	for _, c := range []struct {
		told          string // of two attempts that both say a1
		loser, winner int    // the numbers that they get
	}{
		{"loser starts, winner starts, winner ends, loser ends", 1, 2},
		{"loser starts, loser ends, winner starts, winner ends", 1, 2},
		{"loser stores, winner starts, loser starts, winner ends", 1, 2},
		{"winner starts, winner ends, loser starts, loser ends", 2, 1},
		{"winner ends, loser ends", 2, 1},
		{"loser ends, winner ends", 1, 2},
	} {
		g := newGrid(t)
		a := g.addSite("A")
		a.join("peerA", 2)
		other := a.join("peerB", 2)
		id := task.NewID(g.mustSubmit(taskqueue.Submission{Name: "w", Tasks: []task.Task{job("t", nil, []string{"x"})}}), "t")
		a.sync()
		loser := a.start(id, a.members[0])
		a.next.Starts = nil
		winner := &attempt{id: loser.id, number: loser.number}
		winner.id.Pilot, winner.id.Counter = other.id, 51
		lost, won := a.fail(loser, task.PilotFailed), a.succeed(winner)
		for _, step := range strings.Split(c.told, ", ") {
			switch step {
			case "loser starts":
				a.next.Starts = []task.Start{{Attempt: loser.id, Number: loser.number, Started: epoch}}
			case "winner starts":
				a.next.Starts = []task.Start{{Attempt: winner.id, Number: winner.number, Started: epoch}}
			case "loser stores":
				x := task.Qualify(id.Workflow(), "x")
				a.store(task.File{LFN: x, Size: 10, Producer: loser.id, Digest: content(loser.id, x)})
			case "loser ends":
				a.deliver(lost)
			case "winner ends":
				if verdict := a.deliver(won); verdict != task.AckAccepted {
					t.Errorf("%s: the success is answered %v", c.told, verdict)
				}
			}
			a.sync()
		}
		if got := g.numbers(id); got[loser.id.Counter] != c.loser || got[51] != c.winner {
			t.Errorf("%s: the numbers are %v", c.told, got)
		}
	}
}

// What pilots say does not move the numbers of later attempts out of reach, and a
// lease that runs out uses none up.
func TestNumbersOfAttemptsStaySmall(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("peerA", 2)
	id := task.NewID(g.mustSubmit(taskqueue.Submission{Name: "w", Tasks: []task.Task{job("t", nil, nil)}}), "t")
	for i, said := range []int{1, math.MaxInt32, -5, 0} {
		a.sync()
		ran := a.start(id, a.members[0])
		ran.number, a.next.Starts[0].Number = said, said
		a.sync()
		a.end(id, a.fail(ran, task.KilledByUser))
		a.sync()
		if got := g.numbers(id)[ran.id.Counter]; got != i+1 {
			t.Errorf("the attempt that says a%d is a%d", said, got)
		}
	}
	a.sync()
	g.tick(11 * time.Minute)
	if next := g.state(id).Number; next != 5 {
		t.Errorf("the next attempt is a%d", next)
	}
}

// TestAnAttemptUnderALeaseThatIsNotKnown: a queue that was put back to a backup knows the
// site's lease of a task by its number only. What the site reports of an attempt under it
// counts in the same way before and after the task's present lease has ended, also within
// one call: an outcome that was unknown left the attempt's start behind, as running for ever.
func TestAnAttemptUnderALeaseThatIsNotKnown(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	one, two := a.join("peer1", 1), a.join("peer2", 1)
	w := g.mustSubmit(taskqueue.Submission{Name: "w", Tasks: []task.Task{job("t", nil, nil)}})
	id := task.NewID(w, "t")
	call := a.message()
	call.Leases = []task.LeaseID{57}
	g.must(func(turn *taskqueue.Turn) error {
		reply, err := a.rules.Sync(turn, call)
		a.take(reply)
		return err
	})
	for _, m := range a.members {
		m.listed = true
	}
	present := a.start(id, two)
	earlier := &attempt{id: present.id, number: 1}
	earlier.id.Lease, earlier.id.Pilot, earlier.id.Counter = 57, one.id, 1
	killed := a.fail(earlier, task.KilledByUser)
	killed.Reason = "another pilot has run it, or does"
	a.next.Starts = []task.Start{{Attempt: earlier.id, Number: 1}}
	a.ended = append(a.ended, killed)
	a.end(id, a.succeed(present))
	a.sync()
	g.view(func(turn *taskqueue.Turn) error {
		attempts, err := turn.Attempts().OfTask(id)
		if len(attempts) != 2 {
			t.Errorf("the task has %d attempts, want 2", len(attempts))
		}
		for _, attempt := range attempts {
			if attempt.State == taskqueue.AttemptRunning {
				t.Errorf("%s is said to run still", attempt.Outcome.Attempt)
			}
		}
		return err
	})
	if s := g.state(id); s.State != task.Done || s.Winner != present.id {
		t.Errorf("the task is %s, its winner %s", s.State, s.Winner)
	}
	g.check()
}
