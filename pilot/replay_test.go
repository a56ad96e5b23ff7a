package pilot_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/pilot/journal"
	"github.com/pilotage-grid/pilotage/pilot/master"
	"github.com/pilotage-grid/pilotage/task"
)

// record begins the journal of a pilot's master.
func (n *node) record() {
	var err error
	n.recorder, err = journal.NewWriter(&n.journal, journal.Header{Version: "test", Site: siteName, Pilot: n.id, Config: master.DefaultConfig()})
	if err != nil {
		n.w.failed("%s: %v", n.id, err)
	}
}

// wantSameAgain replays a pilot's journal: every step must assign the same.
func (n *node) wantSameAgain(t interface {
	Errorf(format string, arguments ...any)
}) journal.Result {
	result, err := journal.Replay{}.Run(bytes.NewReader(n.journal.Bytes()))
	switch {
	case err != nil:
		t.Errorf("replay of %s: %v", n.id, err)
	case result.First != nil:
		t.Errorf("replay of %s parts in step %d after %s:\nrecorded %v\nreplayed %v", n.id, result.First.Step,
			result.First.After, result.First.Recorded, result.First.Replayed)
	case result.Cut || result.Recorded != result.Replayed || result.Same != result.Recorded || result.Changed != 0:
		t.Errorf("replay of %s: %+v", n.id, result)
	}
	return result
}

// A site of eight pilots with different caches, of which one dies, runs 200
// tasks that many pilots are equally good for: the journal of its master,
// replayed, gives every task to the same pilot at the same moment. With other
// settings it does not.
func TestReplayAssignsTheSame(t *testing.T) {
	w := newWorld(t.Errorf)
	w.journals = true
	for i := range 8 {
		w.add(task.PilotID(fmt.Sprintf("p%d", i)), 2, nil)
	}
	w.elect(w.nodes[0])
	tasks := make([]task.Task, 200)
	for i := range tasks {
		short := fmt.Sprintf("t%d", i)
		tasks[i] = task.Task{
			ID: id(short), Shell: "true", Walltime: time.Hour, Retries: 9, Resources: task.Resources{Cores: 1, Memory: task.MiB},
			Inputs: []task.Input{{LFN: name(fmt.Sprintf("in%d", i%11)), Name: "in"}},
		}
		w.runs[short] = time.Duration(20+i%7*30) * time.Millisecond
	}
	w.queue.submit(tasks...)
	w.run(400 * time.Millisecond)
	w.kill(w.nodes[5])
	if !w.runUntil(5*time.Minute, w.queue.finished) {
		t.Fatal("the tasks are not done")
	}
	chief := w.nodes[0]
	result := chief.wantSameAgain(t)
	if result.Recorded < 200 {
		t.Errorf("%d assignments of 200 tasks", result.Recorded)
	}
	other, err := journal.Replay{Change: func(s *task.SiteSettings) { s.Prefill = 4 }}.Run(bytes.NewReader(chief.journal.Bytes()))
	if err != nil || other.First == nil || other.Changed == 0 {
		t.Errorf("with more prefill the replay assigns the same: %+v, %v", other, err)
	}
}
