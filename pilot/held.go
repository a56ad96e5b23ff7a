package pilot

import (
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// lease is a hand-out as its master keeps it.
type lease struct {
	lease task.Lease
	ttl   time.Duration
	open  int // held tasks of it
}

// heldPhase of a task of the hand-out.
type heldPhase uint8

const (
	waiting  heldPhase = iota // an input does not exist yet
	ready                     // may be assigned
	assigned                  // given to a pilot, payload not started
	started                   // payload started
	ended                     // its outcome is on the way to the queue
)

// held is one task of the hand-out.
type held struct {
	task.LeasedTask
	lease      task.LeaseID
	phase      heldPhase
	missing    map[task.LFN]bool
	readySince time.Time
	no         uint64 // in the task list; 0 when not listed
	pilot      task.PilotID
	assignedAt time.Time
	holding    bool // holds a slot at its pilot, by this master's reckoning
	retracting bool
	refused    int
	searched   int
}

// addLease takes a hand-out; one that is known is taken again without harm.
func (m *Master) addLease(l task.Lease) {
	known := m.leases[l.ID]
	if known == nil {
		known = &lease{}
		m.leases[l.ID] = known
		m.copies.add(l)
	}
	known.lease, known.ttl = l, l.TTL
	for _, leased := range l.Tasks {
		m.forgetOldOutputs(leased)
	}
	for _, file := range l.Files {
		m.learnFile(file)
	}
	for _, leased := range l.Tasks {
		m.addTask(l.ID, leased)
	}
	if known.open == 0 {
		m.closeLease(l.ID)
	}
}

// forgetOldOutputs drops what an earlier generation of a task had made.
func (m *Master) forgetOldOutputs(leased task.LeasedTask) {
	for _, output := range leased.Task.Outputs {
		file := m.files[output.LFN]
		if file != nil && file.Producer.Task == leased.Task.ID && file.Producer.Generation < leased.Generation {
			delete(m.files, output.LFN)
		}
	}
}

// learnFile takes the queue's word on a file. What this site's own outcomes
// have made is known here earlier than there.
func (m *Master) learnFile(file task.File) {
	known := m.files[file.LFN]
	if known == nil || exists(file) || !exists(*known) {
		copied := file
		m.files[file.LFN] = &copied
	}
}

// exists tells whether a file can be read from somewhere.
func exists(file task.File) bool { return len(file.Announced) > 0 || len(file.Replicas) > 0 }

func (m *Master) addTask(id task.LeaseID, leased task.LeasedTask) {
	if old := m.held[leased.Task.ID]; old != nil {
		if old.lease == id {
			return
		}
		m.forget(old)
	}
	h := &held{LeasedTask: leased, lease: id, missing: make(map[task.LFN]bool)}
	m.held[leased.Task.ID] = h
	m.leases[id].open++
	for _, input := range leased.Task.Inputs {
		if file := m.files[input.LFN]; file == nil || !exists(*file) {
			h.missing[input.LFN] = true
			m.waiters[input.LFN] = append(m.waiters[input.LFN], leased.Task.ID)
		}
	}
	if len(h.missing) == 0 {
		m.makeReady(h)
	} else {
		m.list.offer(h)
	}
}

func (m *Master) makeReady(h *held) {
	h.phase = ready
	h.readySince = m.now
	h.pilot = ""
	if h.no != 0 {
		m.matrix.SetReady(h.no, true)
		return
	}
	m.list.offer(h)
}

// backToReady takes a task from a pilot that will not run it (any more).
func (m *Master) backToReady(h *held, wasStarted bool) {
	m.takeFrom(h)
	h.retracting = false
	if wasStarted {
		h.Number++
	}
	if len(h.missing) > 0 {
		h.phase = waiting
		return
	}
	m.makeReady(h)
}

// takeFrom ends a task's stay at its pilot and gives the slot to the next one
// there, as the pilot itself does.
func (m *Master) takeFrom(h *held) {
	w := m.pilots[h.pilot]
	h.pilot = ""
	if w == nil {
		h.holding = false
		return
	}
	delete(w.jobs, h.Task.ID)
	w.release(h)
	w.promote()
	m.refreshPlaces(w)
}

// forget drops a task from the hand-out: it has ended, was returned or revoked.
func (m *Master) forget(h *held) {
	if m.held[h.Task.ID] != h {
		return
	}
	if h.pilot != "" {
		m.takeFrom(h)
	}
	m.unlist(h)
	delete(m.held, h.Task.ID)
	for name := range h.missing {
		m.waiters[name] = slices.DeleteFunc(m.waiters[name], func(id task.ID) bool { return id == h.Task.ID })
		if len(m.waiters[name]) == 0 {
			delete(m.waiters, name)
		}
	}
	if l := m.leases[h.lease]; l != nil {
		l.open--
		if l.open <= 0 {
			m.closeLease(h.lease)
		}
	}
}

func (m *Master) closeLease(id task.LeaseID) {
	delete(m.leases, id)
	m.copies.drop(id)
}

// fileExists makes tasks ready that waited for a file.
func (m *Master) fileExists(name task.LFN) {
	ids := m.waiters[name]
	delete(m.waiters, name)
	for _, id := range ids {
		h := m.held[id]
		if h == nil || !h.missing[name] {
			continue
		}
		delete(h.missing, name)
		if len(h.missing) == 0 && h.phase == waiting {
			m.makeReady(h)
		}
	}
}

// fileMissing takes a file for lost: tasks that were to read it wait.
func (m *Master) fileMissing(name task.LFN) {
	delete(m.files, name)
	for _, id := range sortedKeys(m.held) {
		h := m.held[id]
		if h.phase > ready || !reads(h.Task, name) {
			continue
		}
		h.missing[name] = true
		m.waiters[name] = append(m.waiters[name], id)
		if h.phase == ready {
			h.phase = waiting
			if h.no != 0 {
				m.matrix.SetReady(h.no, false)
			}
		}
	}
}

func reads(t task.Task, name task.LFN) bool {
	return slices.ContainsFunc(t.Inputs, func(in task.Input) bool { return in.LFN == name })
}

// inputs returns the files of a task's inputs, in order.
func (m *Master) inputs(t task.Task) []task.File {
	files := make([]task.File, len(t.Inputs))
	for i, in := range t.Inputs {
		if file := m.files[in.LFN]; file != nil {
			files[i] = *file
		} else {
			files[i] = task.File{LFN: in.LFN, Size: -1}
		}
	}
	return files
}

// giveBack returns an unstarted task to the queue.
func (m *Master) giveBack(h *held, reason string) {
	m.outbox.returns = append(m.outbox.returns, task.Returned{
		Task: h.Task.ID, Generation: h.Generation, Lease: h.lease, Reason: reason,
	})
	m.forget(h)
	m.syncSoon(m.config.SyncDelay)
}

// revoke carries out the queue's wish to have tasks back.
func (m *Master) revoke(revoked []task.Revoked) {
	for _, r := range revoked {
		h := m.held[r.Task]
		if h != nil && h.lease == r.Lease {
			switch {
			case r.Cancel:
				if h.phase == assigned || h.phase == started {
					m.tell(h.pilot, Kill{Term: m.term, Task: r.Task, Lease: r.Lease, Reason: "cancelled"})
				}
				m.forget(h)
			case h.phase == waiting || h.phase == ready:
				m.giveBack(h, "recalled")
			}
		}
		m.outbox.confirmed = append(m.outbox.confirmed, r)
		m.syncSoon(m.config.SyncDelay)
	}
}
