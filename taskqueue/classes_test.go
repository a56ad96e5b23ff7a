package taskqueue_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/mem"
)

// oneByOne is a store that never finds enough when it is asked for several classes.
type oneByOne struct{ taskqueue.Store }

func (s oneByOne) Update(ctx context.Context, write func(taskqueue.Tx) error) error {
	return s.Store.Update(ctx, func(tx taskqueue.Tx) error { return write(oneByOneTx{tx}) })
}

type oneByOneTx struct{ taskqueue.Tx }

func (t oneByOneTx) Tasks() taskqueue.TaskTable { return oneByOneTasks{t.Tx.Tasks()} }

type oneByOneTasks struct{ taskqueue.TaskTable }

func (oneByOneTasks) ReadyOf(map[taskqueue.ClassID]int, taskqueue.Instant, int, int) ([]taskqueue.TaskState, bool, error) {
	return nil, false, nil
}

// Tasks of many classes are handed out in the same order whether their classes are
// looked at together or one by one.
func TestManyClassesAreHandedOutAsOneByOne(t *testing.T) {
	for seed := range uint64(20) {
		together := handOuts(t, gridOn(t, mem.New()), seed)
		apart := handOuts(t, gridOn(t, oneByOne{mem.New()}), seed)
		if !slices.Equal(together, apart) {
			t.Errorf("seed %d: handed out\n%q, one by one\n%q", seed, together, apart)
		}
		if len(together) < 100 {
			t.Errorf("seed %d: only %d tasks are handed out", seed, len(together))
		}
	}
}

// handOuts has two sites run tasks of 60 classes, some of which fail and wait, and tells
// in which order they are handed out.
func handOuts(t *testing.T, g *grid, seed uint64) (names []string) {
	random := rand.New(rand.NewPCG(seed, 0))
	crews := []*crew{g.addSite("A"), g.addSite("B")}
	for i, c := range crews {
		c.join(task.PeerID(fmt.Sprint("peer", i)), 1+random.IntN(8))
	}
	for round := range 12 {
		if round < 3 {
			s := taskqueue.Submission{Name: fmt.Sprint("w", round)}
			for i := range 150 {
				t := job(fmt.Sprintf("w%d.t%03d", round, i), nil, nil)
				t.Require = fmt.Sprintf("pilot.cores > %d", random.IntN(60)-60)
				t.Priority = random.IntN(3)
				s.Tasks = append(s.Tasks, t)
			}
			g.mustSubmit(s)
		}
		c := crews[random.IntN(2)]
		reply := c.sync()
		for _, lease := range reply.Leases {
			for _, leased := range lease.Tasks {
				names = append(names, string(c.site)+":"+leased.Task.ID.Name())
			}
		}
		for _, leased := range c.waiting() {
			a := c.start(leased.Task.ID, c.members[0])
			if random.IntN(4) == 0 {
				c.end(leased.Task.ID, c.fail(a, task.PayloadFailed))
			} else {
				c.end(leased.Task.ID, c.succeed(a))
			}
		}
		g.tick(time.Duration(random.IntN(3000)) * time.Millisecond)
	}
	return names
}
