package mem

import (
	"cmp"
	"slices"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

type pilotRow struct {
	taskqueue.PilotRecord
	order uint64
}

type pilots struct {
	rows   directory[task.PilotID, *pilotRow]
	byID   index[pilotRow]
	bySite index[pilotRow] // state, site, id
	byPeer index[pilotRow] // newest first
}

func newPilots(inPlace bool) pilots {
	return pilots{
		rows: newDirectory[task.PilotID, *pilotRow](inPlace),
		byID: newIndex(func(a, b *pilotRow) bool { return a.ID < b.ID }, nil),
		bySite: newIndex(func(a, b *pilotRow) bool {
			if a.State != b.State {
				return a.State < b.State
			}
			if a.Site != b.Site {
				return a.Site < b.Site
			}
			return a.ID < b.ID
		}, nil),
		byPeer: newIndex(func(a, b *pilotRow) bool {
			if a.Peer != b.Peer {
				return a.Peer < b.Peer
			}
			return a.order > b.order
		}, nil),
	}
}

func (p pilots) copy() pilots {
	return pilots{p.rows.copy(), p.byID.copy(), p.bySite.copy(), p.byPeer.copy()}
}

func (p pilots) replace(before, after *pilotRow) {
	p.byID.replace(before, after)
	p.bySite.replace(before, after)
	p.byPeer.replace(before, after)
}

type pilotTable struct{ *tx }

func (t pilotTable) Load(ids ...task.PilotID) ([]taskqueue.PilotRecord, error) {
	return gather(ids, func(id task.PilotID, pilot *taskqueue.PilotRecord) bool {
		row, ok := t.pilots.rows.get(id)
		if ok {
			pilotCopy.load(pilot, &row.PilotRecord)
		}
		return ok
	}), nil
}

func (t pilotTable) Save(saved ...taskqueue.PilotRecord) error {
	if err := t.writing(); err != nil {
		return err
	}
	for _, record := range saved {
		row := &pilotRow{PilotRecord: record}
		pilotCopy.detach(&row.PilotRecord)
		before, known := t.pilots.rows.get(record.ID)
		if known {
			row.order = before.order
		} else {
			row.order = t.next()
		}
		t.pilots.rows.set(record.ID, row)
		t.pilots.replace(before, row)
	}
	return nil
}

func (t pilotTable) Delete(ids ...task.PilotID) error {
	if err := t.writing(); err != nil {
		return err
	}
	for _, id := range ids {
		t.pilots.replace(t.pilots.rows.remove(id), nil)
	}
	return nil
}

func (t pilotTable) List(after task.PilotID, limit int) ([]taskqueue.PilotRecord, error) {
	var rows []*pilotRow
	t.pilots.byID.from(&pilotRow{PilotRecord: taskqueue.PilotRecord{ID: after}}, func(row *pilotRow) bool {
		if len(rows) >= limit {
			return false
		}
		if row.ID != after {
			rows = append(rows, row)
		}
		return true
	})
	return gather(rows, func(row *pilotRow, pilot *taskqueue.PilotRecord) bool {
		pilotCopy.load(pilot, &row.PilotRecord)
		return true
	}), nil
}

var pilotStates = []taskqueue.PilotState{
	taskqueue.PilotAlive, taskqueue.PilotDraining, taskqueue.PilotLeft, taskqueue.PilotDead,
}

// ofSite shows the rows of a site's pilots.
func (t pilotTable) ofSite(site task.Site, states []taskqueue.PilotState, show func(*pilotRow)) {
	if len(states) == 0 {
		states = pilotStates
	}
	for _, state := range slices.Compact(slices.Sorted(slices.Values(states))) {
		pivot := &pilotRow{PilotRecord: taskqueue.PilotRecord{Site: site, State: state}}
		t.pilots.bySite.from(pivot, func(row *pilotRow) bool {
			if row.State != state || site != "" && row.Site != site {
				return false
			}
			show(row)
			return true
		})
	}
}

func (t pilotTable) OfSite(site task.Site, states ...taskqueue.PilotState) ([]taskqueue.PilotRecord, error) {
	var rows []*pilotRow
	t.ofSite(site, states, func(row *pilotRow) { rows = append(rows, row) })
	slices.SortFunc(rows, func(a, b *pilotRow) int { return cmp.Compare(a.ID, b.ID) })
	return gather(rows, func(row *pilotRow, pilot *taskqueue.PilotRecord) bool {
		pilotCopy.load(pilot, &row.PilotRecord)
		return true
	}), nil
}

func (t pilotTable) IDsOfSite(site task.Site, states ...taskqueue.PilotState) (found []task.PilotID, err error) {
	t.ofSite(site, states, func(row *pilotRow) { found = append(found, row.ID) })
	slices.Sort(found)
	return found, nil
}

func (t pilotTable) ByPeer(peer task.PeerID) (id task.PilotID, err error) {
	pivot := &pilotRow{PilotRecord: taskqueue.PilotRecord{Peer: peer}, order: newestFirst}
	t.pilots.byPeer.from(pivot, func(row *pilotRow) bool {
		if row.Peer == peer {
			id = row.ID
		}
		return false
	})
	return id, nil
}
