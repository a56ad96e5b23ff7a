package matcher

import (
	"cmp"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// Foresight tells what is expected of pilots and tasks. With one, a matrix
// keeps slots for tasks that would else wait for ever beside smaller ones.
type Foresight interface {
	// Now is the time by which the others reckon.
	Now() time.Time
	// Waited tells whether a task has been ready for so long that slots are
	// kept for it.
	Waited(no uint64) bool
	// Expected is how long a task is expected to run.
	Expected(no uint64) time.Duration
	// Occupancy is what holds the slots of a pilot; false while it takes no work.
	Occupancy(task.PilotID) (Occupancy, bool)
}

// Occupancy is what a pilot has and what holds it.
type Occupancy struct {
	Total    task.Resources
	Slots    int
	Running  []Occupant
	Given    []time.Duration // expected runs of what it was given early, in order
	Lifetime time.Duration   // what is left of it; 0: not known
}

// Occupant holds a slot of a pilot.
type Occupant struct {
	Need task.Resources
	Left time.Duration // that it is expected to run on
}

// opening is how a task finds room at a pilot.
type opening struct {
	after  time.Duration // when enough has ended
	ends   int           // of so many tasks
	beside Places        // what is left then beside it and what runs on
	// some and any tell whether the end of some task alone, or of any, makes room.
	some, any bool
}

// opening looks for room for a task of a need; false if there never is.
func (o *Occupancy) opening(need task.Resources) (found opening, ok bool) {
	slices.SortStableFunc(o.Running, func(a, b Occupant) int { return cmp.Compare(a.Left, b.Left) })
	room := Places{Free: o.Total, FreeSlots: o.Slots - len(o.Running)}
	for _, r := range o.Running {
		room.Free = room.Free.Sub(r.Need)
	}
	found.any = len(o.Running) > 0
	for _, r := range o.Running {
		freed := Places{Free: room.Free.Add(r.Need), FreeSlots: room.FreeSlots + 1}
		enough := freed.offers(need, false)
		found.some, found.any = found.some || enough, found.any && enough
	}
	for !room.offers(need, false) {
		if found.ends == len(o.Running) {
			return found, false
		}
		next := o.Running[found.ends]
		room.Free, room.FreeSlots = room.Free.Add(next.Need), room.FreeSlots+1
		found.after = max(found.after, next.Left)
		found.ends++
	}
	room.take(need, false)
	found.beside = room
	return found, true
}

// reservation keeps a pilot's slots for one task that fits nowhere: until that
// begins, tasks that come after it begin there only if they are expected to end
// before it can, or to leave it room. The time by which it can never moves back,
// so what takes longer than expected delays it once and no more.
type reservation struct {
	cell   *cell
	row    *pilotRow
	begins time.Time
	// As of the solution under way:
	gap       time.Duration // until it begins
	beside    Places        // what may run on beside it
	foresight Foresight
}

const (
	// reserveEvery is the time between two looks for tasks that fit nowhere.
	reserveEvery = time.Second
	// reservedShare bounds for how many tasks slots are kept at a time: for one,
	// and another one for so many pilots.
	reservedShare = 8
)

// SetForesight has slots be kept for tasks that fit nowhere; nil, as in a new
// matrix, has none be kept.
func (m *Matrix) SetForesight(f Foresight) {
	m.foresight = f
	if f == nil {
		m.releaseAll(func(*reservation) bool { return true })
	}
}

// Reserved tells which pilots keep slots for a task.
func (m *Matrix) Reserved() (pilots []task.PilotID) {
	for _, r := range m.reservations {
		pilots = append(pilots, r.row.pilot)
	}
	return pilots
}

// Keeping tells whether a pilot keeps slots for a task.
func (m *Matrix) Keeping(pilot task.PilotID) bool {
	at, found := m.findPilot(pilot)
	return found && m.rows[at].reservation != nil
}

// reserve renews the reservations and makes those that are due.
func (m *Matrix) reserve() {
	if m.foresight == nil {
		return
	}
	now := m.foresight.Now()
	m.releaseAll(func(r *reservation) bool { return !m.renew(r, now) })
	if now.Before(m.reserveDue) {
		return
	}
	m.reserveDue = now.Add(reserveEvery)
	most := 1 + len(m.rows)/reservedShare
	served := make(map[*block]bool)
	for _, c := range m.waited(most - len(m.reservations)) {
		if len(m.reservations) >= most {
			return
		}
		if served[c.block] {
			continue
		}
		row := m.rowFor(c)
		if row == nil {
			served[c.block] = true
			continue
		}
		if r := (&reservation{cell: c, row: row}); m.renew(r, now) {
			c.reservation, row.reservation = r, r
			m.reservations = append(m.reservations, r)
		}
	}
}

// renew reckons a reservation anew; false ends it.
func (m *Matrix) renew(r *reservation, now time.Time) bool {
	if r.cell.gone || !r.cell.ready || !r.row.accepts(r.cell) {
		return false
	}
	found, ok := m.opening(r.row, r.cell)
	if !ok {
		return false
	}
	r.foresight, r.beside = m.foresight, found.beside
	if begins := now.Add(found.after); r.begins.IsZero() || begins.Before(r.begins) {
		r.begins = begins
	}
	r.gap = r.begins.Sub(now)
	return true
}

// opening is when a pilot has room for a task; false if it has none while it
// lives.
func (m *Matrix) opening(row *pilotRow, c *cell) (found opening, ok bool) {
	load, ok := m.foresight.Occupancy(row.pilot)
	if !ok {
		return found, false
	}
	if found, ok = load.opening(c.block.need); !ok {
		return found, false
	}
	return found, load.Lifetime <= 0 || found.after+m.foresight.Expected(c.No) <= load.Lifetime
}

// waited lists ready tasks, in order, that have waited and have no slots kept for
// them: of each class as many as slots may be kept for.
func (m *Matrix) waited(most int) (found []*cell) {
	for _, block := range m.classes {
		left := most
		for _, c := range block.ready {
			if left <= 0 || !m.foresight.Waited(c.No) {
				break
			}
			if c.reservation == nil {
				found = append(found, c)
				left--
			}
		}
	}
	slices.SortFunc(found, func(a, b *cell) int { return cmp.Or(a.inOrder(b), cmp.Compare(a.No, b.No)) })
	return found
}

// rowFor is the pilot that can begin a task first, if the task fits nowhere: no
// pilot that it may run at has room for it, or will when one task ends there, so
// that no slot that becomes free is of use to it. Where the end of some tasks
// would do, and others always take what it frees, it is passed over, and then
// counts as well.
func (m *Matrix) rowFor(c *cell) (best *pilotRow) {
	var first time.Duration
	for _, row := range m.rows {
		if row.reservation != nil || !row.accepts(c) {
			continue
		}
		found, ok := m.opening(row, c)
		switch {
		case !ok:
		case found.ends == 0 || found.any || found.some && !c.starving:
			return nil
		case best == nil || found.after < first:
			best, first = row, found.after
		}
	}
	return best
}

// releaseAll ends reservations.
func (m *Matrix) releaseAll(which func(*reservation) bool) {
	m.reservations = slices.DeleteFunc(m.reservations, func(r *reservation) bool {
		if !which(r) {
			return false
		}
		r.cell.reservation, r.row.reservation = nil, nil
		return true
	})
}

// inOrder is the order of tasks before their ranks: by priority, then age.
func (c *cell) inOrder(other *cell) int {
	return cmp.Or(cmp.Compare(other.Priority, c.Priority), cmp.Compare(c.Order, other.Order))
}

// accepts tells whether the pilot may run a task, as far as it has judged it.
func (r *pilotRow) accepts(c *cell) bool {
	if c.Version > r.version || !r.canRun(c.Class) {
		return false
	}
	at, excepted := r.except(c.No)
	return !excepted || r.exceptions[at].clause == ""
}

// bid is a reservation in a run of a solver.
type bid struct {
	*reservation
	beside Places // what is left of it
}

// newBidder has a pilot bid for its places, and go by the reservation of its
// slots.
func newBidder(row *pilotRow) bidder {
	b := bidder{row: row, places: row.places}
	if row.reservation != nil {
		b.kept = &bid{row.reservation, row.reservation.beside}
	}
	return b
}

// offers tells whether a bidder can take a task and may.
func (b *bidder) offers(c *cell, prefill bool) bool {
	return b.places.offers(c.block.need, prefill) && (b.kept == nil && c.reservation == nil || b.spares(c, prefill))
}

// spares tells whether a bidder may take a task: one for which slots are kept
// begins at once or not at all, and who keeps slots takes nothing that would
// delay what they are kept for.
func (b *bidder) spares(c *cell, prefill bool) bool {
	switch kept := b.kept; {
	case prefill:
		return kept == nil && c.reservation == nil
	case kept == nil || kept.cell == c:
		return true
	default:
		return c.inOrder(kept.cell) < 0 || kept.before(c) || kept.beside.offers(c.block.need, false)
	}
}

// before tells whether a task ends before what slots are kept for can begin.
func (r *reservation) before(c *cell) bool { return r.gap > 0 && r.foresight.Expected(c.No) <= r.gap }

// take notes that the bidder has been given a task.
func (b *bidder) take(c *cell, prefill bool) {
	b.places.take(c.block.need, prefill)
	switch {
	case b.kept == nil:
	case b.kept.cell == c:
		b.kept = nil
	case !b.kept.before(c):
		b.kept.beside.take(c.block.need, false)
	}
}
