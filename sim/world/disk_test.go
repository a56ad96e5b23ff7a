package world

import (
	"errors"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/taskqueue/store/storetest"
	"github.com/pilotage-grid/pilotage/taskqueue/store/tables"
)

// The model of the disk keeps what every engine keeps.
func TestDiskIsAnEngine(t *testing.T) {
	storetest.RunEngine(t, func(testing.TB) tables.Engine { return newDisk() })
}

// A commit that did not return is there as a whole or not at all, as the power cut has it.
func TestPowerCuts(t *testing.T) {
	for cut, kept := range map[powerCut]bool{beforeSync: false, afterSync: true} {
		d := newDisk()
		in, err := d.Begin(true)
		if err != nil {
			t.Fatal(err)
		}
		if err := in.Put(tables.Row{Key: []byte{1}, Value: []byte("x")}); err != nil {
			t.Fatal(err)
		}
		d.power = cut
		if err := in.Commit(); !errors.Is(err, errPower) {
			t.Errorf("a commit at a power cut returns %v", err)
		}
		if found := d.rot(0, 0) != ""; found != kept {
			t.Errorf("power cut %d: kept is %v", cut, found)
		}
	}
}

// A submission at which the power fails is one that the queue has, or none.
func TestASubmissionAtAPowerCutIsThereOrNot(t *testing.T) {
	for cut, kept := range map[powerCut]bool{beforeSync: false, afterSync: true} {
		w := newWorld(t, 1)
		w.start(w.addSite("siteA", nil), 2, 1)
		w.queue.disk.power = cut
		flow := w.submit("flow", one("a", makes("x")))
		if (flow != "") != kept {
			t.Fatalf("power cut %d: the workflow is %q", cut, flow)
		}
		w.run(2 * time.Minute)
		if again := w.submit("flow", one("a", makes("x"))); kept && again != flow {
			t.Errorf("the second submission is workflow %q, the first %q", again, flow)
		} else {
			w.finish(again, time.Hour)
		}
	}
}
