package master

import (
	"cmp"
	"container/heap"
	"maps"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// list is the master's task list: a window of the hand-out, numbered and
// versioned, sent to the pilots as deltas.
type list struct {
	version matcher.ListVersion
	nextNo  uint64
	nextID  uint32
	classes map[task.Class]uint32
	byNo    map[uint32]task.Class
	uses    map[uint32]int // entries of a class
	live    int            // entries whose rank looks at what runs at a pilot
	entries map[uint64]*matcher.ListEntry
	owner   map[uint64]*held
	avoid   map[uint64]*held // of them, those that are to avoid a node
	ready   backlog          // not listed, ready
	blocked backlog          // not listed, inputs still to be made

	round rounds
}

// rounds are the broadcasts of the list: what the next one tells and asks, and what
// is known of the one under way.
type rounds struct {
	added   []*held
	removed []uint64
	ask     []task.FileKey
	census  bool
	copies  bool      // the census wants the hand-outs that are kept
	due     time.Time // when changes are to be broadcast; zero: there are none
	sent    time.Time
	usual   time.Duration         // of a round, from its beginning to its end
	whole   *matcher.ListSnapshot // of the version at hand; nil: not asked for yet

	number      uint64 // of the last one
	open        uint64 // round under way; 0: none
	openVersion uint64 // that it brings
	censusRound uint64

	// With a fixed period of rounds only.
	period      time.Time // when the next one begins
	periodic    bool      // the next broadcast begins one
	periodRound uint64
	solve       bool // one is over
}

// removalDelay is how long changes that only shorten the list may wait.
const removalDelay = 2 * time.Second

func (l *list) reset(term task.Term) {
	*l = list{
		version: matcher.ListVersion{Term: term},
		classes: make(map[task.Class]uint32),
		byNo:    make(map[uint32]task.Class),
		uses:    make(map[uint32]int),
		entries: make(map[uint64]*matcher.ListEntry),
		owner:   make(map[uint64]*held),
		avoid:   make(map[uint64]*held),
		round:   rounds{number: l.round.number, period: l.round.period, usual: l.round.usual},
	}
}

// backlog orders tasks by priority; those that read what other tasks have made
// before others, while caches have it; then by age.
type backlog []*held

func (b backlog) Len() int { return len(b) }
func (b backlog) Less(i, j int) bool {
	if b[i].Task.Priority != b[j].Task.Priority {
		return b[i].Task.Priority > b[j].Task.Priority
	}
	if b[i].near != b[j].near {
		return b[i].near
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
	if l.round.due.IsZero() || due.Before(l.round.due) {
		l.round.due = due
	}
}

// passList fills the window and broadcasts what has changed: soon after the
// changes, or at the rounds of a fixed period (004: every 20 s).
func (site *site) passList(at *step) {
	l := &site.list
	if at.settings.RoundEvery > 0 {
		site.list.passPeriod(at, &site.handout, &site.roster)
	} else {
		l.round.period = time.Time{}
		site.list.fillWindow(at, &site.handout, &site.roster)
		if n := len(l.round.added); n > 0 {
			if at.own.on {
				l.hurry(at.now) // nobody else is to be spared
			}
			l.hurry(at.now.Add(at.config.List.RoundDelay(n)))
		} else if len(l.round.removed) > 0 {
			l.hurry(at.now.Add(removalDelay))
		}
	}
	if l.round.due.IsZero() || at.now.Before(l.round.due) {
		return
	}
	// A site that is slow to answer, or that a hung pilot holds up, is not
	// given the next change before the last one is through, within reason.
	if pause := max(at.config.List.RoundHigh, 2*l.round.usual); l.round.open != 0 && at.now.Sub(l.round.sent) < pause {
		l.round.due = l.round.sent.Add(pause)
		return
	}
	site.flush(at)
}

// passPeriod begins a round when it is time.
func (l *list) passPeriod(at *step, hand *handout, roster *roster) {
	if l.round.period.IsZero() {
		l.round.period = at.now
	}
	if at.now.Before(l.round.period) {
		return
	}
	l.round.period = at.now.Add(at.settings.RoundEvery)
	l.fillWindow(at, hand, roster)
	if len(l.round.added) > 0 || len(l.round.removed) > 0 {
		l.round.periodic = true // its end will have the matrix solved
		l.hurry(at.now)
		return
	}
	l.round.solve = true
}

// fillWindow lists ready tasks, and where room is left, tasks that wait: they
// are ranked before their inputs exist, and never keep a ready one out. Beside
// a full window as many wait as may follow what runs.
func (l *list) fillWindow(at *step, hand *handout, roster *roster) {
	window := at.config.List.Window(roster.size.slots)
	l.fill(hand, &l.ready, window-hand.counts.listed[ready], ready)
	beside := min(waitingPerSlot*roster.size.slots, at.config.List.Most)
	l.fill(hand, &l.blocked, max(window-hand.counts.listed[ready], beside)-hand.counts.listed[waiting], waiting)
}

// waitingPerSlot is how many tasks that wait are listed for each slot in any
// case: those that read what runs there.
const waitingPerSlot = 2

// fill lists tasks of a phase; those that moved on since they were offered
// are passed over.
func (l *list) fill(hand *handout, from *backlog, room int, phase heldPhase) {
	for taken := 0; taken < room && from.Len() > 0; {
		h := heap.Pop(from).(*held)
		if hand.held[h.Task.ID] != h || h.no != 0 || h.phase != phase {
			continue
		}
		l.nextNo++
		hand.setNumber(h, l.nextNo)
		l.round.added = append(l.round.added, h)
		taken++
	}
}

// flush makes the changes the next version of the list and broadcasts it.
func (site *site) flush(at *step) {
	l := &site.list
	l.round.due = time.Time{}
	if len(l.round.added) == 0 && len(l.round.removed) == 0 && !l.round.census && len(l.round.ask) == 0 {
		return
	}
	delta := matcher.ListDelta{Base: l.version, Remove: l.round.removed}
	l.version.N++
	l.round.whole = nil
	delta.Version = l.version
	for _, h := range l.round.added {
		if site.handout.held[h.Task.ID] == h && h.no != 0 && l.entries[h.no] == nil {
			delta.Add = append(delta.Add, site.enter(at, h, &delta))
		}
	}
	site.list.dropClasses(&site.placing, &delta)
	l.round.number++
	if l.round.census {
		l.round.censusRound = l.round.number
	}
	if l.round.periodic {
		l.round.periodRound, l.round.periodic = l.round.number, false
	}
	at.act(CastList{N: l.round.number, List: message.TaskList{Delta: delta, Census: l.round.census, Copies: l.round.copies, Ask: l.round.ask}})
	l.round.added, l.round.removed, l.round.ask, l.round.census, l.round.copies = nil, nil, nil, false, false
	l.round.open, l.round.openVersion, l.round.sent = l.round.number, l.version.N, at.now
}

// enter gives a task its place in list and matrix.
func (site *site) enter(at *step, h *held, delta *matcher.ListDelta) *matcher.ListEntry {
	l := &site.list
	of := at.classOf(h)
	class, known := l.classes[of]
	if !known {
		l.nextID++
		class = l.nextID
		l.classes[of], l.byNo[class] = class, of
		numbered := matcher.ListClass{No: class, Class: of}
		delta.Classes = append(delta.Classes, numbered)
		site.placing.matrix.AddClass(numbered)
	}
	l.uses[class]++
	entry := &matcher.ListEntry{
		No: h.no, Version: l.version.N, Class: class, Task: listed(h.Task), Files: message.ListFiles(site.handout.inputs(h.Task)),
	}
	l.entries[h.no], l.owner[h.no] = entry, h
	if len(h.Avoid) > 0 && !h.anywhere {
		l.avoid[h.no] = h
	}
	base := 0.0
	if rank, err := site.placing.compiler.Rank(of.Rank); err == nil {
		base = rank.EntryBase(entry.Task, entry.Files, matcher.DefaultRates())
		if rank.Live() {
			site.countLive(at, +1)
		}
	}
	site.placing.matrix.AddTask(matcher.MatrixTask{
		No: h.no, Class: class, Version: l.version.N, EntryBase: base,
		Order: h.Age, Priority: h.Task.Priority, Queue: h.Task.Queue,
	})
	site.placing.matrix.SetReady(h.no, h.phase == ready)
	site.markMakers(h)
	site.placing.unsolved = true
	site.replication.track(&site.handout, entry)
	return entry
}

// countLive counts the entries whose rank looks at what runs at a pilot: while
// there are some, members are served otherwise.
func (site *site) countLive(at *step, by int) {
	before := site.list.live
	if site.list.live += by; (before == 0) != (site.list.live == 0) {
		site.refreshAll(at)
	}
}

// class is a task's in the list: where the task gives no rank, the site does.
func (at *step) class(t task.Task) task.Class {
	class := t.Class()
	class.Rank = cmp.Or(class.Rank, at.settings.Rank)
	return class
}

// relist takes every task off the list and puts those that wait on it again,
// in their classes by the settings of the moment.
func (site *site) relist(at *step) {
	for _, h := range byKey(site.handout.held) {
		if h.no == 0 {
			continue
		}
		site.unlist(at, h)
		if h.phase <= ready {
			site.list.offer(h)
		}
	}
}

// listed is what expressions may look at: pilots need no more of a task before
// it is assigned to them.
func listed(t task.Task) *task.Task {
	return &task.Task{ID: t.ID, Resources: t.Resources, Priority: t.Priority, Walltime: t.Walltime, Bound: t.Bound}
}

// unlist takes a task off the list.
func (site *site) unlist(at *step, h *held) {
	no := h.no
	if no == 0 {
		return
	}
	site.handout.setNumber(h, 0)
	l := &site.list
	entry := l.entries[no]
	if entry == nil {
		return
	}
	l.uses[entry.Class]--
	if rank, err := site.placing.compiler.Rank(l.byNo[entry.Class].Rank); err == nil && rank.Live() {
		site.countLive(at, -1)
	}
	site.replication.untrack(entry)
	delete(l.entries, no)
	delete(l.owner, no)
	delete(l.avoid, no)
	l.round.removed = append(l.round.removed, no)
	site.placing.matrix.RemoveTask(no)
}

// idleClasses is how many classes may be listed before those without entries
// are dropped.
const idleClasses = 256

func (l *list) dropClasses(placing *placing, delta *matcher.ListDelta) {
	if len(l.classes) <= idleClasses {
		return
	}
	for _, no := range slices.Sorted(maps.Keys(l.byNo)) {
		if l.uses[no] > 0 || len(l.classes) <= idleClasses/2 {
			continue
		}
		delta.DropClasses = append(delta.DropClasses, no)
		placing.matrix.RemoveClass(no)
		delete(l.classes, l.byNo[no])
		delete(l.byNo, no)
		delete(l.uses, no)
	}
}

// snapshot is the whole list, the same for all who ask for one version: what
// was taken off it since, the next version takes off at the pilots.
func (l *list) snapshot(term task.Term) matcher.ListSnapshot {
	if l.round.whole != nil {
		return *l.round.whole
	}
	s := matcher.ListSnapshot{Version: l.version, Rates: matcher.DefaultRates()}
	s.Version.Term = term
	for no, class := range byKey(l.byNo) {
		s.Classes = append(s.Classes, matcher.ListClass{No: no, Class: class})
	}
	s.Entries = make([]*matcher.ListEntry, 0, len(l.entries))
	for _, entry := range byKey(l.entries) {
		s.Entries = append(s.Entries, entry)
	}
	l.round.whole = &s
	return s
}
