package sqlite

import (
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// countReady notes a change of the number of READY tasks of a class.
func (t *tx) countReady(state task.State, class taskqueue.ClassID, change int64) {
	if state != task.Ready {
		return
	}
	if t.ready == nil {
		t.ready = make(map[taskqueue.ClassID]int64)
	}
	t.ready[class] += change
}

func (t *tx) writeReadyCounts() error {
	for class, change := range t.ready {
		if change == 0 {
			continue
		}
		err := t.write(`INSERT INTO ready_counts VALUES (?, ?) ON CONFLICT DO UPDATE SET number = number + excluded.number`,
			int64(class), change)
		if err != nil {
			return err
		}
		if change > 0 {
			continue
		}
		if err := t.write("DELETE FROM ready_counts WHERE class = ? AND number = 0", int64(class)); err != nil {
			return err
		}
	}
	clear(t.ready)
	return nil
}
