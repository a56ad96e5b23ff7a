package tables

import (
	"bytes"
	"slices"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/internal/record"
)

var siteKind = kind[task.Site, taskqueue.SiteRecord]{
	table: sites, codec: record.New[taskqueue.SiteRecord](), often: true,
	id: func(s *taskqueue.SiteRecord) task.Site { return s.Name }, key: text[task.Site],
}

var grantKind = kind[string, taskqueue.Grant]{
	table: grants, codec: record.New[taskqueue.Grant](),
	id: func(g *taskqueue.Grant) string { return g.ID }, key: text[string],
}

type pilotTable struct {
	records[task.PilotID, taskqueue.PilotRecord]
}

var pilotKind = kind[task.PilotID, taskqueue.PilotRecord]{
	table: pilots, codec: record.New[taskqueue.PilotRecord](), counter: "pilot rows", often: true,
	id: func(p *taskqueue.PilotRecord) task.PilotID { return p.ID }, key: text[task.PilotID],
	indexes: []index[taskqueue.PilotRecord]{
		{pilotsByState, func(_ uint64, p *taskqueue.PilotRecord) []key {
			return []key{number(uint64(p.State)).text(string(p.Site)).text(string(p.ID))}
		}},
		{pilotsByPeer, func(n uint64, p *taskqueue.PilotRecord) []key { return []key{text(p.Peer).number(n)} }},
	},
}

func (t pilotTable) List(after task.PilotID, limit int) ([]taskqueue.PilotRecord, error) {
	span := Span{}
	if after != "" {
		span.From = beyond(text(after))
	}
	return t.scan(span, limit)
}

func (t pilotTable) OfSite(site task.Site, states ...taskqueue.PilotState) ([]taskqueue.PilotRecord, error) {
	keys, err := t.keysOfSite(site, states)
	if err != nil {
		return nil, err
	}
	return t.at(pilotsByState, keys)
}

func (t pilotTable) IDsOfSite(site task.Site, states ...taskqueue.PilotState) (found []task.PilotID, err error) {
	keys, err := t.keysOfSite(site, states)
	for _, key := range keys {
		found = append(found, pilotOf(key))
	}
	return found, err
}

// keysOfSite returns the keys of a site's pilots, by id.
func (t pilotTable) keysOfSite(site task.Site, states []taskqueue.PilotState) (keys [][]byte, err error) {
	for _, state := range allOr(states) {
		some, err := t.primaries(pilotsByState, ofSite(state, site), noLimit)
		if err != nil {
			return nil, err
		}
		keys = append(keys, some...)
	}
	slices.SortFunc(keys, bytes.Compare)
	return keys, nil
}

// pilotOf reads the key of a pilot.
func pilotOf(key []byte) task.PilotID {
	id := parts{rest: key}
	return task.PilotID(id.text())
}

func ofSite(state taskqueue.PilotState, site task.Site) Span {
	if site == "" {
		return under(number(uint64(state)))
	}
	return under(number(uint64(state)).text(string(site)))
}

// allOr returns the given states, each once; none means all.
func allOr(states []taskqueue.PilotState) []taskqueue.PilotState {
	if len(states) == 0 {
		return []taskqueue.PilotState{taskqueue.PilotAlive, taskqueue.PilotDraining, taskqueue.PilotLeft, taskqueue.PilotDead}
	}
	return slices.Compact(slices.Sorted(slices.Values(states)))
}

func (t pilotTable) ByPeer(peer task.PeerID) (task.PilotID, error) {
	span := under(text(peer))
	span.Down = true
	keys, err := t.primaries(pilotsByPeer, span, 1)
	if err != nil || len(keys) == 0 {
		return "", err
	}
	return pilotOf(keys[0]), nil
}
