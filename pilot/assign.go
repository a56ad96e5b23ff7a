package pilot

import (
	"cmp"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/task"
)

// worker is what the master knows of one pilot. Slots and resources are
// reckoned from assignments and reports, by the same rule that the pilot
// applies itself: the oldest assignment that fits takes a freed slot.
type worker struct {
	id        task.PilotID
	peer      task.PeerID
	described bool // its state has come
	total     capacity
	used      capacity
	jobs      map[task.ID]*held
	foreign   []InHand // in hand, of leases that this master does not hold
	draining  bool
	listed    bool // its row has come
	rowWanted time.Time
	cache     CacheReport
	idleSince time.Time
}

type capacity struct {
	slots     int
	resources task.Resources
}

func (w *worker) take(h *held) {
	h.holding = true
	w.used.slots++
	w.used.resources = w.used.resources.Add(h.Task.Resources)
}

func (w *worker) release(h *held) {
	if !h.holding {
		return
	}
	h.holding = false
	w.used.slots--
	w.used.resources = w.used.resources.Sub(h.Task.Resources)
}

func (w *worker) freeSlots() int { return max(0, w.total.slots-w.used.slots) }

func (w *worker) fits(h *held) bool {
	return w.freeSlots() > 0 && w.total.resources.Sub(w.used.resources).Fits(h.Task.Resources)
}

// promote gives freed slots to waiting assignments, oldest first.
func (w *worker) promote() {
	for _, h := range w.inOrder() {
		if !h.holding && h.phase == assigned && w.fits(h) {
			w.take(h)
		}
	}
}

func (w *worker) inOrder() []*held {
	jobs := make([]*held, 0, len(w.jobs))
	for _, h := range w.jobs {
		jobs = append(jobs, h)
	}
	slices.SortFunc(jobs, func(a, b *held) int {
		if c := a.assignedAt.Compare(b.assignedAt); c != 0 {
			return c
		}
		return cmp.Compare(a.Age, b.Age)
	})
	return jobs
}

func (w *worker) prefilled() int {
	n := 0
	for _, h := range w.jobs {
		if !h.holding {
			n++
		}
	}
	return n
}

// refreshPlaces tells the matrix what a pilot can take.
func (m *Master) refreshPlaces(w *worker) {
	if m.pilots[w.id] != w || !w.described {
		return
	}
	places := matcher.Places{}
	if !w.draining {
		places.Free = w.total.resources.Sub(w.used.resources)
		places.FreeSlots = w.freeSlots()
		places.Prefill = max(0, m.settings.Prefill*w.total.slots-w.prefilled())
	}
	m.matrix.SetPlaces(w.id, places)
	if places.FreeSlots == 0 {
		w.idleSince = time.Time{}
	} else if w.idleSince.IsZero() {
		w.idleSince = m.now
	}
}

// assign solves the rank matrix and gives out the tasks (004, section III-C).
func (m *Master) assign() {
	if m.matrix.Ready() == 0 || !m.mayStart() {
		return
	}
	batches := make(map[task.PilotID][]Assignment)
	touched := make(map[task.PilotID]*worker)
	for _, a := range m.matrix.Solve(matcher.Greedy) {
		h, w := m.list.owner[a.No], m.pilots[a.Pilot]
		if h == nil || w == nil || h.phase != ready {
			continue
		}
		h.phase, h.pilot, h.assignedAt, h.retracting = assigned, w.id, m.now, false
		w.jobs[h.Task.ID] = h
		if !a.Prefill {
			w.take(h)
		}
		touched[w.id] = w
		batches[w.id] = append(batches[w.id], Assignment{
			Task: h.Task, Lease: h.lease, Generation: h.Generation, Number: h.Number,
			Files: m.inputs(h.Task), Prefill: a.Prefill, Waited: m.now.Sub(h.readySince),
		})
	}
	for _, id := range sortedKeys(batches) {
		m.refreshPlaces(touched[id])
		m.tell(id, Assign{Term: m.term, Tasks: batches[id]})
	}
	if len(batches) > 0 {
		m.refill()
	}
}

// refill asks the queue for more before the hand-out runs dry.
func (m *Master) refill() {
	waiting, slots := 0, 0
	for _, h := range m.held {
		if h.phase == ready {
			waiting++
		}
	}
	for _, w := range m.pilots {
		slots += w.total.slots
	}
	if waiting < slots && m.outbox.lastWaiting >= slots {
		m.syncSoon(0)
	}
}

// idle lists pilots whose slots have found nothing for a while.
func (m *Master) idle() []*worker {
	var idle []*worker
	for _, id := range sortedKeys(m.pilots) {
		w := m.pilots[id]
		if w.freeSlots() > 0 && !w.draining && !w.idleSince.IsZero() && m.now.Sub(w.idleSince) >= m.config.RetractAfter {
			idle = append(idle, w)
		}
	}
	return idle
}

func (m *Master) retractDeadline() time.Time {
	if !m.anyPrefilled() {
		return time.Time{}
	}
	var first time.Time
	for _, w := range m.pilots {
		if w.freeSlots() == 0 || w.draining || w.idleSince.IsZero() {
			continue
		}
		if due := w.idleSince.Add(m.config.RetractAfter); due.After(m.now) && (first.IsZero() || due.Before(first)) {
			first = due
		}
	}
	return first
}

func (m *Master) anyPrefilled() bool {
	for _, w := range m.pilots {
		if w.prefilled() > 0 {
			return true
		}
	}
	return false
}

// passRetracts takes the longest waiting prefilled tasks back for idle slots.
func (m *Master) passRetracts() {
	idle := m.idle()
	if len(idle) == 0 || !m.mayStart() {
		return
	}
	var prefilled []*held
	retracting := 0
	for _, w := range m.pilots {
		for _, h := range w.jobs {
			switch {
			case h.retracting:
				retracting++
			case !h.holding && h.phase == assigned:
				prefilled = append(prefilled, h)
			}
		}
	}
	slices.SortFunc(prefilled, func(a, b *held) int {
		if c := a.assignedAt.Compare(b.assignedAt); c != 0 {
			return c
		}
		return cmp.Compare(a.Age, b.Age)
	})
	for _, w := range idle {
		for range w.freeSlots() - retracting {
			i := slices.IndexFunc(prefilled, func(h *held) bool {
				_, feasible := m.matrix.Rank(w.id, h.no)
				return feasible && h.pilot != w.id && w.fits(h)
			})
			if i < 0 {
				break
			}
			h := prefilled[i]
			prefilled = slices.Delete(prefilled, i, i+1)
			h.retracting = true
			m.tell(h.pilot, Retract{Term: m.term, Task: h.Task.ID, Lease: h.lease})
		}
		retracting = max(0, retracting-w.freeSlots())
	}
}
