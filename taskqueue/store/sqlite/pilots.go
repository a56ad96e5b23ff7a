package sqlite

import (
	"cmp"
	"database/sql/driver"
	"slices"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

type pilotTable struct{ *tx }

func (t pilotTable) Load(ids ...task.PilotID) ([]taskqueue.PilotRecord, error) {
	return load(t.tx, pilotCodec, "SELECT record FROM pilots WHERE id = ?", ids)
}

func (t pilotTable) Save(pilots ...taskqueue.PilotRecord) error {
	for _, p := range pilots {
		err := t.write(`INSERT INTO pilots (id, peer, site, state, record) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (id) DO UPDATE SET peer = excluded.peer, site = excluded.site, state = excluded.state, record = excluded.record`,
			string(p.ID), string(p.Peer), string(p.Site), int64(p.State), pilotCodec.Encode(&p))
		if err != nil {
			return err
		}
	}
	return t.writing()
}

func (t pilotTable) Delete(ids ...task.PilotID) error {
	for _, id := range ids {
		if err := t.write("DELETE FROM pilots WHERE id = ?", string(id)); err != nil {
			return err
		}
	}
	return t.writing()
}

func (t pilotTable) List(after task.PilotID, limit int) ([]taskqueue.PilotRecord, error) {
	return records(t.tx, pilotCodec, "SELECT record FROM pilots WHERE id > ? ORDER BY id LIMIT 0+?", string(after), atMost(limit))
}

func (t pilotTable) OfSite(site task.Site, states ...taskqueue.PilotState) (found []taskqueue.PilotRecord, err error) {
	for _, state := range allOr(states) {
		if site == "" {
			found, err = appendRecords(found, t.tx, pilotCodec, "SELECT record FROM pilots WHERE state = ?", int64(state))
		} else {
			found, err = appendRecords(found, t.tx, pilotCodec, "SELECT record FROM pilots WHERE state = ? AND site = ?", int64(state), string(site))
		}
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(found, func(a, b taskqueue.PilotRecord) int { return cmp.Compare(a.ID, b.ID) })
	return found, nil
}

func (t pilotTable) IDsOfSite(site task.Site, states ...taskqueue.PilotState) (found []task.PilotID, err error) {
	note := func(row []driver.Value) error {
		found = append(found, task.PilotID(row[0].(string)))
		return nil
	}
	for _, state := range allOr(states) {
		if site == "" {
			err = t.read("SELECT id FROM pilots WHERE state = ?", note, int64(state))
		} else {
			err = t.read("SELECT id FROM pilots WHERE state = ? AND site = ?", note, int64(state), string(site))
		}
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(found)
	return found, nil
}

// allOr returns the given states, each once; none means all.
func allOr(states []taskqueue.PilotState) []taskqueue.PilotState {
	if len(states) == 0 {
		return []taskqueue.PilotState{taskqueue.PilotAlive, taskqueue.PilotDraining, taskqueue.PilotLeft, taskqueue.PilotDead}
	}
	return slices.Compact(slices.Sorted(slices.Values(states)))
}

func (t pilotTable) ByPeer(peer task.PeerID) (task.PilotID, error) {
	id, err := t.text("SELECT id FROM pilots WHERE peer = ? ORDER BY number DESC LIMIT 1", string(peer))
	return task.PilotID(id), err
}
