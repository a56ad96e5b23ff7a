package pilot

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/task"
)

// list is the master's task list: a window of the hand-out, numbered and
// versioned, sent to the pilots as deltas.
type list struct {
	version  matcher.ListVersion
	nextNo   uint64
	classes  map[task.Class]uint32
	numbered []matcher.ListClass
	entries  map[uint64]*matcher.ListEntry
	owner    map[uint64]*held
	ready    backlog // not listed, ready
	blocked  backlog // not listed, inputs still to be made
	counts   [2]int  // listed: waiting ones, others

	added   []*held
	removed []uint64
	ask     []task.FileKey
	census  bool
	due     time.Time
	sent    time.Time
	rounds  uint64
	open    uint64 // round under way; 0: none
}

// removalDelay is how long changes that only shorten the list may wait.
const removalDelay = 2 * time.Second

func (l *list) reset(term task.Term) {
	*l = list{
		version: matcher.ListVersion{Term: term},
		classes: make(map[task.Class]uint32),
		entries: make(map[uint64]*matcher.ListEntry),
		owner:   make(map[uint64]*held),
		rounds:  l.rounds,
	}
}

// backlog orders tasks by priority, then age.
type backlog []*held

func (b backlog) Len() int { return len(b) }
func (b backlog) Less(i, j int) bool {
	if b[i].Task.Priority != b[j].Task.Priority {
		return b[i].Task.Priority > b[j].Task.Priority
	}
	return b[i].Age < b[j].Age
}
func (b backlog) Swap(i, j int) { b[i], b[j] = b[j], b[i] }

// Push and Pop satisfy heap.Interface.
func (b *backlog) Push(x any) { *b = append(*b, x.(*held)) }

// Pop satisfies heap.Interface.
func (b *backlog) Pop() any {
	old := *b
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*b = old[:len(old)-1]
	return last
}

// offer puts a task up for the list.
func (l *list) offer(h *held) {
	if h.phase == ready {
		heap.Push(&l.ready, h)
	} else {
		heap.Push(&l.blocked, h)
	}
}

func (l *list) hurry(due time.Time) {
	if l.due.IsZero() || due.Before(l.due) {
		l.due = due
	}
}

func (l *list) deadline() time.Time { return l.due }

// relist offers every task again, after the list was begun anew.
func (m *Master) relist() {
	for _, id := range sortedKeys(m.held) {
		if h := m.held[id]; h.no == 0 && h.phase <= ready {
			m.list.offer(h)
		}
	}
}

// window is how many ready tasks are listed at the most.
func (m *Master) window() int {
	slots := 0
	for _, w := range m.pilots {
		slots += w.total.slots
	}
	return min(max(m.config.WindowPerSlot*slots, 4*m.config.WindowPerSlot), m.config.WindowMost)
}

// passList fills the window and broadcasts what has changed.
func (m *Master) passList() {
	room := m.window() - m.listedUnassigned()
	if room > 0 && (len(m.list.ready) > 0 || len(m.list.blocked) > 0) {
		room -= m.fill(&m.list.ready, room, func(h *held) bool { return h.phase == ready })
		m.fill(&m.list.blocked, room, func(h *held) bool { return h.phase == waiting })
	}
	if n := len(m.list.added); n > 0 {
		spread := m.config.RoundHigh - m.config.RoundLow
		delay := m.config.RoundLow + spread*time.Duration(min(n, 1000))/1000
		m.list.hurry(m.now.Add(delay))
	} else if len(m.list.removed) > 0 {
		m.list.hurry(m.now.Add(removalDelay))
	}
	if !m.list.due.IsZero() && !m.now.Before(m.list.due) {
		if m.list.open != 0 && m.now.Sub(m.list.sent) < m.config.RoundHigh {
			m.list.due = m.list.sent.Add(m.config.RoundHigh)
			return
		}
		m.flush()
	}
}

func (m *Master) listedUnassigned() int {
	n := len(m.list.added)
	for _, h := range m.list.owner {
		if h.phase <= ready {
			n++
		}
	}
	return n
}

func (m *Master) fill(from *backlog, room int, still func(*held) bool) int {
	taken := 0
	for taken < room && from.Len() > 0 {
		h := heap.Pop(from).(*held)
		if m.held[h.Task.ID] != h || h.no != 0 || !still(h) {
			continue // moved on since it was offered
		}
		m.list.nextNo++
		h.no = m.list.nextNo
		m.list.added = append(m.list.added, h)
		taken++
	}
	return taken
}

// flush makes the changes the next version of the list and broadcasts it.
func (m *Master) flush() {
	l := &m.list
	l.due = time.Time{}
	if len(l.added) == 0 && len(l.removed) == 0 && !l.census && len(l.ask) == 0 {
		return
	}
	delta := matcher.ListDelta{Base: l.version, Remove: l.removed}
	l.version.N++
	delta.Version = l.version
	for _, h := range l.added {
		if m.held[h.Task.ID] != h || h.no == 0 {
			continue
		}
		entry := m.enter(h, &delta)
		delta.Add = append(delta.Add, entry)
	}
	l.rounds++
	message := TaskList{Delta: delta, Census: l.census, Ask: l.ask}
	l.added, l.removed, l.ask, l.census = nil, nil, nil, false
	l.open, l.sent = l.rounds, m.now
	m.act(CastList{N: l.rounds, List: message})
}

// enter gives a task its place in list and matrix.
func (m *Master) enter(h *held, delta *matcher.ListDelta) *matcher.ListEntry {
	l := &m.list
	class, known := l.classes[h.Task.Class()]
	if !known {
		class = uint32(len(l.classes) + 1)
		l.classes[h.Task.Class()] = class
		numbered := matcher.ListClass{No: class, Class: h.Task.Class()}
		l.numbered = append(l.numbered, numbered)
		delta.Classes = append(delta.Classes, numbered)
		m.matrix.AddClass(numbered)
	}
	described := h.Task
	entry := &matcher.ListEntry{
		No: h.no, Version: l.version.N, Class: class, Task: &described,
		Files: ListFiles(m.inputs(h.Task)),
	}
	l.entries[h.no], l.owner[h.no] = entry, h
	base := 0.0
	if rank, err := m.compiler.Rank(h.Task.Rank); err == nil {
		base = rank.EntryBase(entry.Task, entry.Files, matcher.DefaultRates())
	}
	m.matrix.AddTask(matcher.MatrixTask{
		No: h.no, Class: class, Version: l.version.N, EntryBase: base,
		Order: h.Age, Priority: h.Task.Priority,
	})
	m.matrix.SetReady(h.no, h.phase == ready)
	return entry
}

// unlist takes a task off the list.
func (m *Master) unlist(h *held) {
	if h.no == 0 {
		return
	}
	if _, entered := m.list.entries[h.no]; entered {
		delete(m.list.entries, h.no)
		delete(m.list.owner, h.no)
		m.list.removed = append(m.list.removed, h.no)
		m.matrix.RemoveTask(h.no)
	}
	h.no = 0
}

func (l *list) snapshot(term task.Term) matcher.ListSnapshot {
	s := matcher.ListSnapshot{Version: l.version, Rates: matcher.DefaultRates(), Classes: slices.Clone(l.numbered)}
	s.Version.Term = term
	for _, no := range sortedKeys(l.entries) {
		s.Entries = append(s.Entries, l.entries[no])
	}
	return s
}

// broadcastDone takes the pilots' rows, states and findings.
func (m *Master) broadcastDone(e BroadcastDone) {
	if !m.inOffice {
		return
	}
	if m.list.open == e.N {
		m.list.open = 0
	}
	slices.SortFunc(e.Answers, func(a, b Answer) int { return cmp.Compare(a.Pilot, b.Pilot) })
	census := false
	have := make(map[task.FileKey]bool)
	for _, answer := range e.Answers {
		w := m.pilots[answer.Pilot]
		if w == nil && answer.State != nil {
			w = m.meet(answer)
		}
		if w == nil {
			continue
		}
		if answer.State != nil {
			census = true
			m.state(w, *answer.State)
		}
		if answer.Update != nil {
			m.updateRow(w, *answer.Update)
		}
		for _, key := range answer.Have {
			have[key] = true
		}
	}
	if census {
		m.census = time.Time{}
	}
	m.searched(e.N, have)
	m.returnInfeasible()
}

// meet takes a pilot in that answered a census before it introduced itself.
func (m *Master) meet(answer Answer) *worker {
	w := &worker{id: answer.Pilot, peer: answer.Peer, jobs: make(map[task.ID]*held)}
	m.pilots[answer.Pilot] = w
	m.peers[answer.Peer] = answer.Pilot
	m.greet(w)
	return w
}

func (m *Master) updateRow(w *worker, update matcher.RowUpdate) {
	if err := m.matrix.UpdateRow(update); err != nil {
		m.wantRow(w)
	}
}

// wantRow asks for a whole row, once until it comes.
func (m *Master) wantRow(w *worker) {
	if w.rowWanted.IsZero() || m.now.Sub(w.rowWanted) > m.config.SyncEvery {
		w.rowWanted = m.now
		m.tell(w.id, Want{Term: m.term, Row: true})
	}
}

// returnInfeasible gives classes back that no live pilot can run, with the
// counts of the clauses that they fail.
func (m *Master) returnInfeasible() {
	for _, no := range m.matrix.Infeasible() {
		i := slices.IndexFunc(m.list.numbered, func(c matcher.ListClass) bool { return c.No == no })
		if i < 0 {
			continue
		}
		class := m.list.numbered[i].Class
		var tasks []*held
		for _, id := range sortedKeys(m.held) {
			if h := m.held[id]; h.phase <= ready && h.Task.Class() == class {
				tasks = append(tasks, h)
			}
		}
		if len(tasks) == 0 {
			continue
		}
		why := m.matrix.WhyNot(no)
		refusal := task.Refusal{Class: class, Pilots: why.Pilots}
		for _, count := range why.Clauses {
			refusal.Clauses = append(refusal.Clauses, task.ClauseCount{Clause: count.Clause, Pilots: count.Pilots})
		}
		m.outbox.refused = append(m.outbox.refused, refusal)
		for _, h := range tasks {
			m.giveBack(h, "no pilot of the site can run it")
		}
		m.syncSoon(0)
	}
}
