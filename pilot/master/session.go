package master

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/matcher/replica"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

const (
	// copiesPerPilot bounds the copies that a pilot is told to make before it
	// has made others.
	copiesPerPilot = 8
	// unknownRun is how long a task is expected to take while none has ended.
	unknownRun = matcher.UnknownRun
)

// passReplicas has the replica policies decide when something has changed
// (003: a task has entered the list; 002: at the end of a session).
func (site *site) passReplicas(at *step, outbox *outbox) {
	r := &site.replication
	if len(r.policies) == 0 || r.due.IsZero() || at.now.Before(r.due) {
		return
	}
	r.began, r.due = at.now, time.Time{}
	if !site.mayStart(at, outbox) {
		site.replication.replicationChanged(at, &site.roster, &site.list) // again in a while
		return
	}
	listed := site.list.countedTasks()
	sight := site.replicaSight(at, listed)
	decided := r.policies.Session(sight.View)
	site.replication.orderCopies(at, &site.roster, &site.list, decided, sight.copying)
	site.replication.claim(&site.handout, &site.placing, decided, listed)
	site.reserve(at, decided.Reserved)
	site.launch(at, outbox, decided.Starts, listed)
	if len(decided.Reserved) > 0 {
		site.replication.replicationChanged(at, &site.roster, &site.list) // plans go on from session to session
	}
}

// countedTasks are the tasks that wait and of whose files every pilot has told
// by now, oldest first.
func (l *list) countedTasks() []*held {
	var counted []*held
	for no, h := range l.owner {
		answered := l.round.open == 0 || l.entries[no].Version < l.round.openVersion
		if h.phase == ready && answered {
			counted = append(counted, h)
		}
	}
	slices.SortFunc(counted, func(a, b *held) int {
		return cmp.Or(cmp.Compare(a.Age, b.Age), cmp.Compare(a.Task.ID, b.Task.ID))
	})
	return counted
}

// replicaSight is the site as replica policies see it, and how many copies
// each pilot is making.
type replicaSight struct {
	replica.View
	copying map[task.PilotID]int
}

func (site *site) replicaSight(at *step, listed []*held) replicaSight {
	r := &site.replication
	sight := replicaSight{copying: make(map[task.PilotID]int)}
	made := make(map[task.PilotID]task.Bytes)
	for _, t := range r.files {
		if k := site.handout.files[t.file.LFN]; k != nil {
			t.file = k.file // it may have been made since
		}
		for pilot, c := range t.at {
			if !c.ordered.IsZero() {
				sight.copying[pilot]++
			}
			if c.made && c.present() {
				made[pilot] += max(0, t.file.Size)
			}
		}
	}
	for id, w := range byKey(site.roster.members) {
		unplanned := w.copying.unplanned
		w.copying.unplanned = false
		if !w.described || site.roster.takesNone(w) || at.now.Before(w.copying.copyless) || unplanned {
			continue
		}
		node := replica.Node{ID: id, Free: w.freeSlots() > 0, FreeIn: w.freeIn(at), Room: math.MaxInt64}
		if w.cache.Capacity > 0 { // else it refuses what is too much
			node.Room = w.cache.Capacity/message.ReplicaShare - made[id]
		}
		if w.total.slots > 0 {
			node.Load = float64(w.used.slots) / float64(w.total.slots)
		}
		sight.Nodes = append(sight.Nodes, node)
	}
	for _, h := range listed {
		sight.Tasks = append(sight.Tasks, site.replication.replicaTask(at, &site.list, &site.placing, h))
	}
	coming := site.roster.stagingIn(&site.handout)
	sight.Replicas = func(key task.FileKey) []replica.Copied { return r.copies(key, coming[key]) }
	sight.Size = func(key task.FileKey) task.Bytes {
		if t := r.files[key]; t != nil {
			return t.file.Size
		}
		return -1
	}
	sight.Running = func(no uint64) bool { return r.runs(&site.handout, no) }
	return sight
}

// freeIn is how long until a member is expected to have a free slot for a plan,
// if tasks take as long as usual. A task that takes longer is expected to take
// as much longer again: who knows, but the longer the worse.
func (w *member) freeIn(at *step) time.Duration {
	if w.freeSlots() > 0 {
		return 0
	}
	usual := cmp.Or(at.usualRun, unknownRun)
	first := time.Duration(-1)
	for _, j := range w.placements {
		if !j.holding {
			continue
		}
		left := j.remaining(usual, at.now)
		if left = max(left, -left); first < 0 || left < first {
			first = left
		}
	}
	return max(0, first) + time.Duration(len(w.waiting))*usual
}

// replicaTask is a task as replica policies see it.
func (r *replication) replicaTask(at *step, list *list, placing *placing, h *held) replica.Task {
	if h.session == 0 {
		r.numbers++
		h.session = r.numbers
	}
	t := replica.Task{No: h.session, Weight: replica.Weight(h.Task.Priority), Runtime: cmp.Or(at.usualRun, unknownRun)}
	for _, file := range list.entries[h.no].Files {
		if !slices.Contains(t.Files, file.Key) {
			t.Files = append(t.Files, file.Key)
		}
	}
	t.CanRun = func(pilot task.PilotID) bool {
		_, can := placing.matrix.Rank(pilot, h.no)
		return can
	}
	return t
}

// stagingIn tells which pilots are bringing files in for tasks that they have
// been given: these will be replicas as well.
func (roster *roster) stagingIn(hand *handout) map[task.FileKey][]task.PilotID {
	coming := make(map[task.FileKey][]task.PilotID)
	for _, w := range byKey(roster.members) {
		for _, j := range w.inOrder() {
			if j.held == nil || j.phase != assigned {
				continue
			}
			for _, file := range message.ListFiles(hand.inputs(j.held.Task)) {
				coming[file.Key] = append(coming[file.Key], w.id)
			}
		}
	}
	return coming
}

// copies are a file's replicas, those on their way among them, by pilot.
func (r *replication) copies(key task.FileKey, coming []task.PilotID) []replica.Copied {
	t := r.files[key]
	if t == nil {
		return nil
	}
	var copied []replica.Copied
	for pilot, c := range t.at {
		if c.present() {
			copied = append(copied, replica.Copied{Node: pilot, Complete: c.complete, Used: c.used})
		}
	}
	for _, pilot := range coming {
		if !slices.ContainsFunc(copied, func(c replica.Copied) bool { return c.Node == pilot }) {
			copied = append(copied, replica.Copied{Node: pilot})
		}
	}
	slices.SortFunc(copied, func(a, b replica.Copied) int { return cmp.Compare(a.Node, b.Node) })
	return copied
}

// runs tells whether a task that a plan has launched has not ended.
func (r *replication) runs(hand *handout, no uint64) bool {
	h := r.launched[no]
	return h != nil && hand.held[h.Task.ID] == h && h.phase == placed
}

// orderCopies tells pilots what to copy and what to drop. What a pilot cannot
// be told now is decided again when it has made other copies.
func (r *replication) orderCopies(at *step, roster *roster, list *list, decided replica.Decisions, copying map[task.PilotID]int) {
	orders := make(map[task.PilotID]*message.Replicate)
	order := func(pilot task.PilotID) *message.Replicate {
		if orders[pilot] == nil {
			orders[pilot] = &message.Replicate{Term: at.term}
		}
		return orders[pilot]
	}
	for _, drop := range decided.Drops {
		if t := r.files[drop.File]; t != nil {
			r.drop(drop.File, drop.Node)
			order(drop.Node).Drops = append(order(drop.Node).Drops, t.file)
		}
	}
	for _, one := range decided.Copies {
		t := r.files[one.File]
		if t == nil || !t.file.Exists() {
			if w := roster.members[one.To]; w != nil {
				w.copying.unplanned = true // nobody can make this copy: tasks must not wait for it
				r.replicationChanged(at, roster, list)
			}
			continue
		}
		if copying[one.To] >= copiesPerPilot {
			continue
		}
		copying[one.To]++
		c := r.copyOf(one.File, one.To)
		c.ordered, c.made = at.now, true
		order(one.To).Files = append(order(one.To).Files, t.file)
	}
	for pilot, order := range byKey(orders) {
		if w := roster.members[pilot]; w != nil {
			at.tell(w, *order)
		}
	}
}

// claim keeps tasks for plans, and gives back those that none has any more.
func (r *replication) claim(hand *handout, placing *placing, decided replica.Decisions, listed []*held) {
	before := r.claimed
	r.claimed = make(map[uint64]*held, len(decided.Claimed))
	byNumber := numbered(listed)
	for _, no := range decided.Claimed {
		if h := byNumber[no]; h != nil {
			r.claimed[no] = h
			placing.matrix.SetReady(h.no, false)
		}
	}
	for no, h := range byKey(before) {
		if r.claimed[no] == nil {
			placing.offerAgain(hand, h)
		}
	}
}

func numbered(listed []*held) map[uint64]*held {
	byNumber := make(map[uint64]*held, len(listed))
	for _, h := range listed {
		byNumber[h.session] = h
	}
	return byNumber
}

// reserve keeps pilots for plans, and gives back those of plans that are over.
func (site *site) reserve(at *step, pilots []task.PilotID) {
	r := &site.replication
	before := r.reserved
	r.reserved = make(map[task.PilotID]bool, len(pilots))
	for _, id := range pilots {
		r.reserved[id] = true
	}
	for id, w := range byKey(site.roster.members) {
		if before[id] != r.reserved[id] {
			site.refreshPlaces(at, w)
		}
	}
}

// launch gives the pilots of plans their next tasks.
func (site *site) launch(at *step, outbox *outbox, starts []replica.Start, listed []*held) {
	r := &site.replication
	for no := range r.launched {
		if !site.replication.runs(&site.handout, no) {
			delete(r.launched, no)
		}
	}
	if len(starts) == 0 {
		return
	}
	byNumber := numbered(listed)
	var given []matcher.Assignment
	for _, start := range starts {
		h, w := byNumber[start.No], site.roster.members[start.Node]
		if h == nil || w == nil || !w.fits(h.Task.Resources) {
			continue // it is in the next session's view, so the plan has it again
		}
		r.launched[start.No] = h
		delete(r.claimed, start.No)
		given = append(given, matcher.Assignment{No: h.no, Pilot: w.id})
	}
	site.give(at, outbox, given)
}
