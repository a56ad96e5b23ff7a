package tables

import (
	"cmp"
	"math"
	"slices"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/internal/record"
)

type siteTable struct{ *tx }

var siteKind = kind[taskqueue.SiteRecord]{
	table: sites, codec: record.New[taskqueue.SiteRecord](),
	key: func(s *taskqueue.SiteRecord) key { return text(s.Name) },
}

func (t siteTable) Load(names ...task.Site) ([]taskqueue.SiteRecord, error) {
	return siteKind.load(t.tx, keysOf(names)...)
}

func (t siteTable) Save(sites ...taskqueue.SiteRecord) error { return siteKind.save(t.tx, sites...) }

func (t siteTable) Delete(names ...task.Site) error { return siteKind.remove(t.tx, keysOf(names)...) }

func (t siteTable) All() ([]taskqueue.SiteRecord, error) {
	return bare(siteKind.scan(t.tx, Span{}, math.MaxInt))
}

type pilotTable struct{ *tx }

var pilotKind = kind[taskqueue.PilotRecord]{
	table: pilots, codec: record.New[taskqueue.PilotRecord](), counter: "pilot rows",
	key: func(p *taskqueue.PilotRecord) key { return text(p.ID) },
	indexes: []index[taskqueue.PilotRecord]{
		{pilotsByState, func(_ uint64, p *taskqueue.PilotRecord) key {
			return number(uint64(p.State)).text(string(p.Site)).text(string(p.ID))
		}},
		{pilotsByPeer, func(n uint64, p *taskqueue.PilotRecord) key { return text(p.Peer).number(n) }},
	},
}

func (t pilotTable) Load(ids ...task.PilotID) ([]taskqueue.PilotRecord, error) {
	return pilotKind.load(t.tx, keysOf(ids)...)
}

func (t pilotTable) Save(pilots ...taskqueue.PilotRecord) error {
	return pilotKind.save(t.tx, pilots...)
}

func (t pilotTable) Delete(ids ...task.PilotID) error {
	return pilotKind.remove(t.tx, keysOf(ids)...)
}

func (t pilotTable) List(after task.PilotID, limit int) ([]taskqueue.PilotRecord, error) {
	span := Span{}
	if after != "" {
		span.From = beyond(text(after))
	}
	return bare(pilotKind.scan(t.tx, span, limit))
}

func (t pilotTable) OfSite(site task.Site, states ...taskqueue.PilotState) (found []taskqueue.PilotRecord, err error) {
	for _, state := range allOr(states) {
		some, err := pilotKind.by(t.tx, pilotsByState, ofSite(state, site), math.MaxInt)
		if err != nil {
			return nil, err
		}
		found = append(found, some...)
	}
	slices.SortFunc(found, func(a, b taskqueue.PilotRecord) int { return cmp.Compare(a.ID, b.ID) })
	return found, nil
}

func (t pilotTable) IDsOfSite(site task.Site, states ...taskqueue.PilotState) (found []task.PilotID, err error) {
	for _, state := range allOr(states) {
		err = t.scan(pilotsByState, ofSite(state, site), func(row Row) (bool, error) {
			id := parts{rest: row.Value}
			found = append(found, task.PilotID(id.text()))
			return true, id.err
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(found)
	return found, nil
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
	id := parts{rest: keys[0]}
	return task.PilotID(id.text()), id.err
}

type grantTable struct{ *tx }

var grantKind = kind[taskqueue.Grant]{
	table: grants, codec: record.New[taskqueue.Grant](),
	key: func(g *taskqueue.Grant) key { return text(g.ID) },
}

func (t grantTable) Load(ids ...string) ([]taskqueue.Grant, error) {
	return grantKind.load(t.tx, keysOf(ids)...)
}

func (t grantTable) Save(grants ...taskqueue.Grant) error { return grantKind.save(t.tx, grants...) }

func (t grantTable) All() ([]taskqueue.Grant, error) {
	return bare(grantKind.scan(t.tx, Span{}, math.MaxInt))
}
