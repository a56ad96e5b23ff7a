package master

import (
	"cmp"
	"maps"
	"slices"

	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// soleCopies are those that pilots hand over: those that leave, and those that the storage
// element does not answer while it answers others.
type soleCopies struct{ moving map[task.OutputID]*handOver }

// handOver is a sole copy on its way to another pilot.
type handOver struct {
	file  task.File
	from  task.PilotID
	stays bool         // the pilot that has it: it keeps it until somebody has stored it
	taker task.PilotID // "" while nobody can take it
	taken bool         // the taker has it
	tried map[task.PilotID]bool
}

// takeLeaves finds other keepers for what only one pilot has. It asks
// again until it is answered, so orders and answers may get lost.
func (soles *soleCopies) takeLeaves(at *step, site *site, w *member, files []task.File) {
	if len(files) > 0 {
		w.copying.stores = false
	}
	for _, file := range files {
		id := task.OutputID{Attempt: file.Producer, LFN: file.LFN}
		h := soles.moving[id]
		if h != nil && h.from != w.id {
			if other := site.roster.members[h.from]; other != nil && (w.leaves() || !other.leaves()) {
				// The other one has it as well, and this one cannot store it either, or leaves.
				site.roster.tellRelieved(at, keeper{w.id, id})
				if h.taker == w.id {
					soles.without(at, site, id, h)
				}
				continue
			}
			h.settle(site)
			soles.relieve(at, site, id, h) // the other one, which leaves
			h = nil
		}
		if h == nil {
			h = &handOver{file: file}
			soles.moving[id] = h
		}
		h.from, h.stays = w.id, !w.leaves()
		switch taker := site.roster.members[h.taker]; {
		case taker == nil:
			h.tried = map[task.PilotID]bool{w.id: true}
			soles.chooseTaker(at, site, id, h)
		case !h.taken:
			at.tell(taker, message.StoreOrder{File: file})
		case !h.stays:
			soles.relieve(at, site, id, h)
		}
	}
}

// chooseTaker has the member with most room in its cache take a copy over, of those that
// keep it longest; of a pilot that stays, one whose last word on the storage element was
// that it has taken something: where that answers nobody, copies do not go around. Where
// there is nobody and no storage element either, the leaving pilot need not wait: when it
// has gone the site looks for the file and reports it lost.
func (soles *soleCopies) chooseTaker(at *step, site *site, id task.OutputID, h *handOver) {
	h.taker, h.taken = "", false
	var best *member
	for name, w := range byKey(site.roster.members) {
		if !w.described || w.leaves() || h.tried[name] || h.stays && !w.copying.stores {
			continue
		}
		if best == nil || cmp.Or(cmp.Compare(w.keeps(), best.keeps()), cmp.Compare(w.room(), best.room())) > 0 {
			best = w
		}
	}
	if best != nil {
		h.taker = best.id
		best.copying.promised += h.file.Size
		at.tell(best, message.StoreOrder{File: h.file})
		return
	}
	switch {
	case h.stays:
		delete(soles.moving, id)
	case at.settings.SE == "":
		soles.relieve(at, site, id, h)
	}
}

// room is what is free in a member's cache, less what it was told to take.
func (w *member) room() task.Bytes { return w.cache.Capacity - w.cache.Used - w.copying.promised }

// takeKept relieves a leaving pilot of a copy that another one or the storage
// element has now, or asks the next one; and goes on with searches.
func (m *Master) takeKept(w *member, answers []message.KeptAnswer) {
	for _, answer := range answers {
		m.searches.answered(&m.step, &m.holding, w, answer)
		h := m.soles.moving[answer.Output]
		switch {
		case h == nil || h.taker != w.id || h.taken:
		case answer.Failure != "":
			m.soles.without(&m.step, &m.holding.site, answer.Output, h)
		default:
			h.settle(&m.holding.site)
			if h.taken = true; !h.stays {
				m.soles.relieve(&m.step, &m.holding.site, answer.Output, h)
			}
		}
	}
}

// without goes on without a taker that does not take a copy, or cannot store it.
func (soles *soleCopies) without(at *step, site *site, id task.OutputID, h *handOver) {
	h.settle(site)
	h.tried[h.taker] = true
	soles.chooseTaker(at, site, id, h)
}

// settle takes the copy out of what its taker was told to take, before it has taken it.
func (h *handOver) settle(site *site) {
	if taker := site.roster.members[h.taker]; taker != nil && !h.taken {
		taker.copying.promised -= h.file.Size
	}
}

// stored relieves pilots of copies that others have stored for them, once the queue knows:
// who has stored one may go before that.
func (soles *soleCopies) stored(at *step, site *site, stored []task.Stored) {
	for _, s := range stored {
		if h := soles.moving[s.Output()]; h != nil && h.stays {
			soles.relieve(at, site, s.Output(), h)
		}
	}
}

func (soles *soleCopies) relieve(at *step, site *site, id task.OutputID, h *handOver) {
	delete(soles.moving, id)
	site.roster.tellRelieved(at, keeper{h.from, id})
}

// handOversWithout goes on without a pilot that is gone.
func (soles *soleCopies) handOversWithout(at *step, site *site, pilot task.PilotID) {
	for _, id := range slices.SortedFunc(maps.Keys(soles.moving), task.OutputID.Compare) {
		switch h := soles.moving[id]; pilot {
		case h.from:
			h.settle(site)
			delete(soles.moving, id)
		case h.taker:
			soles.without(at, site, id, h)
		}
	}
}
