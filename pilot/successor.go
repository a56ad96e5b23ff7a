package pilot

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// A successor is a task that misses nothing but what another one is making. It
// has its input in the cache of that one's pilot the moment it can run, so its
// best place is the slot that has just become free. Where a site gives tasks
// early, that pilot is given it early, and starts it without anybody being
// asked; where not, the slot is kept for it.

// longTask is from when on successors count: beside shorter tasks it costs more
// that a slot has nothing else to go on with.
const longTask = time.Second

// hasSuccessors tells whether successors count at all.
func (m *Master) hasSuccessors() bool {
	return m.patient() && m.leavesTasks() && (m.usualRun <= 0 || m.usualRun >= longTask)
}

// successors counts the listed tasks that are ready, with their input in a
// member's cache, when what it runs now has ended, and that would have to wait
// for, or to copy it from, a slot that had been given another task early.
// Counted are at most as many as the member has slots, and none that it has
// been given.
func (m *Master) successors(w *member) (count int) {
	if !m.hasSuccessors() {
		return 0
	}
	for _, j := range w.jobs {
		count += len(m.successorsOf(j))
	}
	return min(count, w.total.slots)
}

// aboutToStart counts the successors of what a member is publishing, with those
// that it has been given.
func (m *Master) aboutToStart(w *member) (count int) {
	if !m.hasSuccessors() {
		return 0
	}
	for _, j := range w.jobs {
		if j.phase == over && m.now.Sub(j.ended) < m.publishWait() {
			count += len(m.successorsOf(j)) + m.givenSuccessors(j)
		}
	}
	return min(count, w.total.slots)
}

// successorsOf lists the successors of a job that are at no pilot.
func (m *Master) successorsOf(j *job) (found []*held) {
	for h := range m.waitersFor(j) {
		if h.phase == waiting && m.maySucceed(j.member, h) {
			found = append(found, h)
		}
		if len(found) >= j.member.total.slots {
			break
		}
	}
	return found
}

// givenSuccessors counts the tasks that have been given to a job's pilot as its
// successors.
func (m *Master) givenSuccessors(j *job) (count int) {
	for h := range m.waitersFor(j) {
		if h.phase == placed && h.job != nil && h.job.member == j.member && len(h.missing) == 1 {
			count++
		}
		if count >= j.member.total.slots {
			break
		}
	}
	return count
}

// waitersFor visits the tasks that miss an output of a job.
func (m *Master) waitersFor(j *job) iter.Seq[*held] {
	return func(yield func(*held) bool) {
		if j.held == nil {
			return
		}
		for _, output := range j.held.Task.Outputs {
			if k := m.files[output.LFN]; k != nil {
				for _, h := range k.waiters {
					if !yield(h) {
						return
					}
				}
			}
		}
	}
}

// maySucceed tells whether a task misses one file alone, and may run at its maker.
func (m *Master) maySucceed(w *member, h *held) bool {
	if len(h.missing) != 1 || h.searching > 0 || h.no == 0 {
		return false
	}
	_, feasible := m.matrix.Rank(w.id, h.no)
	return feasible
}

// lookForSuccessors has a member looked at by the next passSuccessors.
func (m *Master) lookForSuccessors(w *member) { m.expecting[w.id] = true }

// lookAtMakers has those looked at who make the last file that a task misses.
func (m *Master) lookAtMakers(h *held) {
	if len(h.missing) != 1 || h.phase != waiting {
		return
	}
	for name := range h.missing {
		for maker := range m.files[name].placed() {
			m.lookForSuccessors(maker)
		}
	}
}

// passSuccessors gives members the successors of what they run.
func (m *Master) passSuccessors() {
	if len(m.expecting) == 0 || !m.mayStart() {
		return
	}
	members := sortedKeys(m.expecting)
	clear(m.expecting)
	if !m.hasSuccessors() || m.list.live > 0 {
		return
	}
	batches := make(map[task.PilotID][]Assignment)
	m.serial++
	for _, id := range members {
		if w := m.members[id]; w != nil {
			if given := m.successorsFor(w); len(given) > 0 {
				batches[id] = given
			}
		}
	}
	m.send(batches)
}

// successorsFor binds a member to a successor for each slot that has one and no
// task to go on with.
func (m *Master) successorsFor(w *member) (given []Assignment) {
	if !w.described || w.draining || m.replication.reserved[w.id] {
		return nil
	}
	most := m.prefillPerSlot() * w.total.slots
	for _, j := range w.inOrder() {
		if !j.holding || len(w.waiting) >= most || m.givenSuccessors(j) > 0 {
			continue
		}
		if h := m.successorOf(j); h != nil {
			given = append(given, m.bind(h, w, true))
			m.matrix.Placed(w.id, h.no)
		}
	}
	return given
}

// successorOf chooses the successor that a job's slot goes on with: of the
// highest priority and the oldest, where its rank looks at files, no other pilot
// has some of its inputs, which ranks would have to decide, and no ready task
// goes before it by priority or because it was passed over too often.
func (m *Master) successorOf(j *job) *held {
	found := slices.DeleteFunc(m.successorsOf(j), func(h *held) bool {
		rank, err := m.compiler.Rank(m.class(h.Task).Rank)
		return err != nil || !rank.Files() || m.matrix.RaisedElsewhere(j.member.id, h.no) || m.matrix.Outranked(j.member.id, h.Task.Priority)
	})
	if len(found) == 0 {
		return nil
	}
	return slices.MinFunc(found, func(a, b *held) int {
		return cmp.Or(cmp.Compare(b.Task.Priority, a.Task.Priority), cmp.Compare(a.Age, b.Age), cmp.Compare(a.no, b.no))
	})
}

// isSuccessor tells whether a job waits for what another one at its pilot makes.
func (j *job) isSuccessor() bool { return j.held != nil && len(j.held.missing) > 0 }

// makes tells whether a member is thought to be making what a task misses.
func (m *Master) makes(w *member, h *held) bool {
	for name := range h.missing {
		for maker := range m.files[name].placed() {
			if maker == w {
				return true
			}
		}
	}
	return false
}

// inputsMade notes that what a successor has waited for exists.
func (m *Master) inputsMade(j *job) {
	j.member.promote()
	m.refreshPlaces(j.member)
}
