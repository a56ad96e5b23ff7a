package master

import (
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/pilot/message"
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
	waiting heldPhase = iota // an input does not exist yet, or is looked for
	ready                    // may be assigned
	placed                   // at a pilot
	ended                    // its outcome is on the way to the queue
)

// held is one task of the hand-out.
type held struct {
	task.LeasedTask
	lease      task.LeaseID
	phase      heldPhase
	missing    map[task.LFN]bool // inputs that do not exist
	searching  int               // searches that it waits for
	readySince time.Time         // while not started; zero: it waits
	near       bool              // it reads what a task has made; since it was ready
	no         uint64            // in the task list; 0 when not listed
	placement  *placement        // when placed
	endedBy    task.AttemptID    // when ended
	recalled   bool              // the queue wants it back if it is unstarted
	session    uint64            // its number for replica policies; 0: none yet
	anywhere   bool              // it need not avoid nodes any more
	refused    int
	searched   int
}

func (h *held) id() message.LeasedID { return message.LeasedID{Lease: h.lease, Task: h.Task.ID} }

// addLease takes a hand-out; one that is known is taken again without harm.
func (holding *holding) addLease(at *step, l task.Lease) {
	held := holding.site.handout.leases[l.ID]
	if held == nil {
		held = &lease{}
		holding.site.handout.leases[l.ID] = held
		holding.copies.add(l.ID)
	}
	held.lease, held.ttl = l, l.TTL
	for _, leased := range l.Tasks {
		holding.addTask(at, l.ID, leased)
	}
	for _, file := range l.Files {
		holding.site.learnFile(at, &holding.outbox, file)
	}
	if held.open == 0 {
		holding.site.handout.closeLease(&holding.copies, l.ID)
	}
}

// reconcile drops unstarted tasks that the queue no longer counts to a lease:
// they have ended while this master was not in touch with it.
func (holding *holding) reconcile(at *step, l task.Lease) {
	listed := make(map[task.ID]bool, len(l.Tasks))
	for _, leased := range l.Tasks {
		listed[leased.Task.ID] = true
	}
	for id, h := range byKey(holding.site.handout.held) {
		if h.lease == l.ID && !listed[id] && h.phase <= ready {
			holding.forget(at, h)
		}
	}
}

func (holding *holding) addTask(at *step, id task.LeaseID, leased task.LeasedTask) {
	old := holding.site.handout.held[leased.Task.ID]
	_, gone := holding.site.handout.gone[message.LeasedID{Lease: id, Task: leased.Task.ID}]
	if gone || old != nil && old.lease == id {
		return
	}
	if old != nil {
		holding.letGo(at, old)
	}
	h := &held{LeasedTask: leased, lease: id}
	holding.site.handout.held[leased.Task.ID] = h
	holding.site.handout.leases[id].open++
	for _, output := range leased.Task.Outputs {
		k := holding.site.handout.file(output.LFN)
		k.makers = append(k.makers, h)
	}
	for _, input := range leased.Task.Inputs {
		k := holding.site.handout.file(input.LFN)
		k.readers = append(k.readers, h)
		if !k.file.Exists() {
			holding.site.handout.miss(h, k)
		}
	}
	if o := holding.outbox.decides(id, leased); o != nil {
		h.phase, h.endedBy = ended, o.Attempt
		holding.site.handout.counts.count(h, +1)
		return
	}
	holding.site.handout.counts.count(h, +1)
	if j := holding.site.handout.stray(h); j != nil {
		holding.site.attach(at, j, h)
		return
	}
	if len(h.missing) > 0 {
		holding.site.list.offer(h)
		return
	}
	holding.site.makeReady(at, h)
}

// stray finds a placement of a task that was not held: one that is about to end
// before one that has just come.
func (hand *handout) stray(h *held) (found *placement) {
	for _, j := range hand.strays[h.Task.ID] {
		if j.generation == h.Generation && (found == nil || j.phase > found.phase || j.phase == found.phase && j.order < found.order) {
			found = j
		}
	}
	return found
}

func (hand *handout) setPhase(placing *placing, replicas *replication, h *held, phase heldPhase) {
	hand.counts.count(h, -1)
	h.phase = phase
	hand.counts.count(h, +1)
	if h.no != 0 {
		placing.matrix.SetReady(h.no, phase == ready && replicas.claimed[h.session] == nil)
		placing.unsolved = placing.unsolved || phase == ready
	}
}

func (hand *handout) setNumber(h *held, no uint64) {
	hand.counts.count(h, -1)
	h.no = no
	hand.counts.count(h, +1)
}

func (site *site) makeReady(at *step, h *held) {
	if h.readySince.IsZero() {
		h.readySince = at.now
	}
	h.near = slices.ContainsFunc(h.Task.Inputs, func(in task.Input) bool { return !site.handout.file(in.LFN).file.Producer.IsZero() })
	site.handout.setPhase(&site.placing, &site.replication, h, ready)
	if h.no == 0 {
		site.list.offer(h)
	}
}

// makeWait puts a task that was ready, or is back from a pilot, to waiting.
func (site *site) makeWait(h *held) {
	h.readySince = time.Time{}
	site.handout.setPhase(&site.placing, &site.replication, h, waiting)
	if h.no == 0 {
		site.list.offer(h)
	}
}

// backToReady takes a task up again that a pilot will not run (any more).
func (holding *holding) backToReady(at *step, h *held, wasStarted bool) {
	if wasStarted {
		h.Number++
		h.readySince = time.Time{}
	}
	for _, input := range h.Task.Inputs {
		if k := holding.site.handout.file(input.LFN); !k.file.Exists() {
			holding.site.handout.miss(h, k)
		}
	}
	switch {
	case h.recalled:
		holding.giveBack(at, h, "recalled")
	case len(h.missing) > 0 || h.searching > 0:
		holding.site.makeWait(h)
	default:
		holding.site.makeReady(at, h)
	}
}

// forget drops a task from the hand-out: it has ended, was returned, revoked
// or let go of. A pilot that has it in hand keeps its slot until it says
// otherwise.
func (holding *holding) forget(at *step, h *held) {
	if holding.site.handout.held[h.Task.ID] != h {
		return
	}
	if h.placement != nil {
		holding.site.handout.detach(h.placement)
	}
	holding.site.unlist(at, h)
	holding.site.handout.counts.count(h, -1)
	delete(holding.site.handout.held, h.Task.ID)
	holding.site.handout.gone[h.id()] = holding.outbox.call.number
	for name := range h.missing {
		holding.site.handout.file(name).waiters.drop(h)
	}
	for _, input := range h.Task.Inputs {
		k := holding.site.handout.file(input.LFN)
		k.readers.drop(h)
		holding.site.handout.dispose(at, &holding.outbox, k)
	}
	for _, output := range h.Task.Outputs {
		k := holding.site.handout.file(output.LFN)
		k.makers.drop(h)
		holding.site.handout.dispose(at, &holding.outbox, k)
	}
	if h.recalled {
		holding.outbox.confirm(at, &holding.site.handout, task.Revoked{Lease: h.lease, Task: h.Task.ID})
	}
	if l := holding.site.handout.leases[h.lease]; l != nil {
		holding.copies.gone(h.id())
		if l.open--; l.open <= 0 {
			holding.site.handout.closeLease(&holding.copies, h.lease)
		}
	}
}

func (hand *handout) closeLease(copies *copies, id task.LeaseID) {
	delete(hand.leases, id)
	copies.drop(id)
}

// letGo forgets a task whose lease is over. What was not started is taken
// from its pilot; a payload that runs goes on, for late work is still work.
func (holding *holding) letGo(at *step, h *held) {
	j := h.placement
	holding.forget(at, h)
	if j == nil || j.phase != assigned {
		return
	}
	at.retract(j)
}

// dropLease lets go of a lease that the queue has given up.
func (holding *holding) dropLease(at *step, id task.LeaseID) {
	if holding.site.handout.leases[id] == nil {
		return
	}
	for _, h := range byKey(holding.site.handout.held) {
		if h.lease == id && h.phase != ended {
			holding.letGo(at, h)
		}
	}
	if holding.site.handout.leases[id] != nil {
		holding.site.handout.closeLease(&holding.copies, id)
	}
}

// giveBack returns an unstarted task to the queue.
func (holding *holding) giveBack(at *step, h *held, reason string) {
	holding.giveBackAs(at, h, task.Returned{Reason: reason})
}

// giveBackUnread gives a task back whose inputs could not be read.
func (holding *holding) giveBackUnread(at *step, h *held, reason string) {
	holding.giveBackAs(at, h, task.Returned{Reason: reason, Unread: true})
}

func (holding *holding) giveBackAs(at *step, h *held, back task.Returned) {
	if holding.site.handout.held[h.Task.ID] != h {
		return
	}
	back.Task, back.Generation, back.Lease = h.Task.ID, h.Generation, h.lease
	holding.outbox.returns = append(holding.outbox.returns, back)
	holding.forget(at, h)
	holding.outbox.syncSoon(at, holding.site.handout.gatherDelay(at))
}

// revoke carries out the queue's wish to have tasks back. It repeats a wish
// until it is confirmed.
func (holding *holding) revoke(at *step, revoked []task.Revoked) {
	for _, r := range revoked {
		h := holding.site.handout.held[r.Task]
		if h != nil && h.lease != r.Lease {
			h = nil
		}
		switch {
		case r.Cancel:
			holding.cancel(at, message.LeasedID{Lease: r.Lease, Task: r.Task}, h)
			holding.outbox.confirm(at, &holding.site.handout, r)
		case h != nil && h.phase <= ready && !holding.site.roster.census.IsZero():
			h.recalled = true // a pilot may have it: the census tells
		case h != nil && h.phase <= ready:
			holding.giveBack(at, h, "recalled")
			holding.outbox.confirm(at, &holding.site.handout, r)
		case h != nil && h.phase == placed && h.placement.phase == assigned:
			h.recalled = true // confirmed when its pilot has answered
			at.retract(h.placement)
		default:
			holding.outbox.confirm(at, &holding.site.handout, r)
		}
	}
}

// giveRecalled gives back what the queue wanted during the census and no pilot
// has; what one has unstarted is asked for.
func (holding *holding) giveRecalled(at *step) {
	for _, h := range byKey(holding.site.handout.held) {
		switch {
		case !h.recalled:
		case h.phase <= ready:
			holding.giveBack(at, h, "recalled")
		case h.phase == placed && h.placement.phase == assigned:
			at.retract(h.placement)
		}
	}
}

// cancel ends a task wherever it is.
func (holding *holding) cancel(at *step, id message.LeasedID, h *held) {
	holding.site.handout.cancelled.add(id, at.now)
	all := slices.Clone(holding.site.handout.strays[id.Task])
	if at := holding.site.handout.held[id.Task]; at != nil && at.placement != nil {
		all = append(all, at.placement)
	}
	for _, j := range all {
		if j.LeasedID == id {
			at.tell(j.member, message.Kill{Term: at.term, Task: id.Task, Lease: id.Lease, Reason: "cancelled"})
		}
	}
	if h != nil {
		holding.forget(at, h)
	}
}

// cancelledFor is how long a master remembers what was cancelled: a pilot that it
// had no touch with may still have it in hand. Whoever comes back later runs it to
// its end, in vain.
const cancelledFor = 10 * time.Minute

// cancellations are what pilots may still have of cancelled tasks.
type cancellations struct {
	known map[message.LeasedID]bool
	order []cancellation // oldest first
}

type cancellation struct {
	id message.LeasedID
	at time.Time
}

func (c *cancellations) reset() { *c = cancellations{known: make(map[message.LeasedID]bool)} }

func (c *cancellations) has(id message.LeasedID) bool { return c.known[id] }

// add remembers a cancelled task, and forgets those of long ago.
func (c *cancellations) add(id message.LeasedID, now time.Time) {
	old := 0
	for old < len(c.order) && now.Sub(c.order[old].at) > cancelledFor {
		delete(c.known, c.order[old].id)
		old++
	}
	c.order = c.order[old:]
	if !c.known[id] {
		c.known[id] = true
		c.order = append(c.order, cancellation{id, now})
	}
}
