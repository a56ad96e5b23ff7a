package taskqueue_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// A user's large tasks hold up no site: of descriptions no answer has more than a master
// can read and pilots can pass on, and all tasks run in the end. A master that knows
// none of its leases, as a new one, is told of them a part at a time.
func TestHandOutsAreBoundedInBytes(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	one := a.join("a1", 2000)
	const tasks, size, mostAnswer, mostAgain, mostHeld = 400, 120_000, 9 << 20, 42 << 20, 34 << 20
	var large []task.Task
	for i := range tasks {
		one := job(fmt.Sprintf("t%03d", i), nil, nil)
		one.Argv, one.Shell = nil, "true #"+strings.Repeat("x", size)
		large = append(large, one)
	}
	w := g.mustSubmit(taskqueue.Submission{Name: "large", Tasks: large})
	told := func(reply task.SyncReply) (bytes int) {
		for _, lease := range reply.Leases {
			for i := range lease.Tasks {
				bytes += lease.Tasks[i].Task.TextBytes()
			}
		}
		return bytes
	}
	again := false
	for round := 0; g.workflow(w).Counts[task.Done] < tasks; round++ {
		if round > tasks {
			t.Fatalf("not done after %d rounds: %v", round, g.workflow(w).Counts)
		}
		reply := a.sync()
		if bytes := told(reply); bytes > mostAnswer && !again || bytes > mostAgain {
			t.Errorf("round %d: an answer has %s of descriptions", round, task.Bytes(bytes))
		}
		again = false
		held := 0
		for _, lt := range a.waiting() {
			held += lt.Task.TextBytes()
		}
		if held > mostHeld {
			t.Errorf("round %d: the site holds %s of descriptions", round, task.Bytes(held))
		}
		switch {
		case round == 4:
			a.forget()
			again = true
		case round > 4:
			for i, lt := range a.waiting() {
				if i < 20 {
					a.end(lt.Task.ID, a.succeed(a.start(lt.Task.ID, one)))
				}
			}
		}
	}
}

// A task of which no pilot can be told fails, and says why.
func TestTasksThatNobodyCanBeToldOfFail(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("a1", 4)
	s := taskqueue.Submission{Name: "copies"}
	var reads []string
	for i := range 20 {
		name := fmt.Sprintf("f%d", i)
		f := at(name, 1000, "A")
		f.Replicas = nil
		for k := range 400 {
			f.Replicas = append(f.Replicas, task.Replica{Site: "A", URL: fmt.Sprintf("file:///se/A/%d/%s/%s", k, strings.Repeat("x", 4000), name)})
		}
		s.Files, reads = append(s.Files, f), append(reads, name)
	}
	s.Tasks = []task.Task{job("reader", reads, nil), job("other", nil, nil)}
	w := g.mustSubmit(s)
	a.sync()
	reader, other := g.state(task.NewID(w, "reader")), g.state(task.NewID(w, "other"))
	if reader.State != task.Failed || !strings.Contains(reader.Reason, "fewer copies") || other.State != task.Leased {
		t.Errorf("the reader is %s: %s; the other one is %s", reader.State, reader.Reason, other.State)
	}
}
