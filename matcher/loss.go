package matcher

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// One rule decides where a task runs whose class is ranked by seconds of stage-in
// (the rank locality): a place takes the task that loses least there,
//
//	loss = start here - earliest start elsewhere
//	start at a pilot = wait for a place there + seconds of stage-in there
//
// and leaves one that starts sooner elsewhere. What two pilots have to stage in
// differs by what their caches save, so only that is compared: the gain of a pilot
// is the seconds by which it ranks a task above its class, times the site's Pace. Of the pilots that gain
// nothing the first that has a place counts: where tasks wait, when the site has
// come through them.
//
// A wait for a place includes what the pilot runs before: what it was given early,
// and the ready tasks that it gains something by and comes to first.

// mostKeepers is of how many pilots with inputs of a task the best is looked for.
// Where more have them, one of these is free soon anyway.
const mostKeepers = 16

// SetLocalityWait has Greedy leave tasks to pilots where they start sooner, but to
// none that has a place for them only after most; slots is how many the site has, pace
// how many times as long stage-in takes there as ranks say. With 0, as in a new matrix,
// or without a Foresight, a place takes what ranks highest there.
func (m *Matrix) SetLocalityWait(most time.Duration, slots int, pace float64) {
	m.localityWait, m.slots, m.pace = most.Seconds(), slots, pace
}

// LookAgain is after how long a solution may be another one at the earliest although
// nothing has happened but that pilots take longer than expected; 0: free slots
// have left nothing to others.
func (m *Matrix) LookAgain() time.Duration { return m.lookAgain }

// Loses is the seconds by which a task starts later in a free slot of a pilot than
// at another one that has a place for it after a wait; below 0: sooner.
func (m *Matrix) Loses(no uint64, here, there task.PilotID, wait time.Duration) float64 {
	return m.pace*(m.row(there).gain(no)-m.row(here).gain(no)) - wait.Seconds()
}

// gain is the seconds by which a pilot ranks a task above its class.
func (r *pilotRow) gain(no uint64) float64 {
	if at, excepted := r.except(no); excepted {
		return r.exceptions[at].gain
	}
	return 0
}

// weigh notes at the task whether the pilot gains something by it.
func (r *pilotRow) weigh(e *exception) {
	r.unweigh(e)
	at, found := r.find(e.cell.Class)
	if !e.cell.block.seconds || !found || !r.answers[at].Feasible || e.clause != "" {
		return
	}
	if e.gain = max(0, e.rank-r.answers[at].Base-e.cell.EntryBase); e.gain > 0 {
		e.cell.keepers = append(e.cell.keepers, r)
	}
}

// unweigh is for an exception that is about to go.
func (r *pilotRow) unweigh(e *exception) {
	if e.gain > 0 {
		e.cell.keepers = slices.DeleteFunc(e.cell.keepers, func(other *pilotRow) bool { return other == r })
		e.gain = 0
	}
}

// foresee reckons when a pilot comes to the ready tasks that it gains something by,
// one after the other as it ranks them.
func (m *Matrix) foresee(row *pilotRow) {
	if row.foreseen == m.runs {
		return
	}
	row.foreseen = m.runs
	var own []*exception
	for i := range row.exceptions {
		if e := &row.exceptions[i]; e.gain > 0 && e.cell.ready && e.cell.Version <= row.version {
			e.wait = math.Inf(1)
			own = append(own, e)
		}
	}
	slices.SortFunc(own, func(a, b *exception) int {
		return cmp.Or(cmp.Compare(b.cell.level(), a.cell.level()), cmp.Compare(b.rank, a.rank),
			cmp.Compare(a.cell.Order, b.cell.Order), cmp.Compare(a.cell.No, b.cell.No))
	})
	places := m.openings(row)
	for _, e := range own {
		if places.first() > max(m.localityWait, m.backlog) {
			return
		}
		e.wait = places.first()
		places.use(m.foresight.Expected(e.cell.No))
	}
}

// elsewhere is how many seconds sooner a task starts at another pilot that gains
// something by it than it would in a free place that gains nothing; below 0, later.
// And how many seconds less it costs the site there: while tasks wait anyway,
// a wait costs nothing.
func (m *Matrix) elsewhere(c *cell, here *pilotRow) (sooner, cheaper float64) {
	sooner = math.Inf(-1)
	if c.starving || c.reservation != nil || len(c.keepers) > mostKeepers {
		return sooner, 0
	}
	for _, row := range c.keepers {
		if row == here {
			continue
		}
		m.foresee(row)
		if at, excepted := row.except(c.No); excepted && c.Version <= row.version {
			e := &row.exceptions[at]
			if e.wait <= m.localityWait {
				sooner = max(sooner, m.pace*e.gain-e.wait)
			}
			cheaper = max(cheaper, m.pace*e.gain-max(0, e.wait-m.backlog))
		}
	}
	return sooner, cheaper
}

// mostGain is the most that a pilot gains by a task.
func (m *Matrix) mostGain(c *cell) (most float64) {
	for _, row := range c.keepers {
		most = max(most, row.gain(c.No))
	}
	return most
}

// lookAgainAfter notes that a free slot has left a task that starts so many seconds
// sooner elsewhere.
func (m *Matrix) lookAgainAfter(seconds float64) {
	after := max(1, time.Duration(seconds*float64(time.Second)))
	if m.lookAgain == 0 || after < m.lookAgain {
		m.lookAgain = after
	}
}

// backlog is the seconds until the site has come through what is ready and finds no
// free slot.
func (m *Matrix) reckonBacklog() float64 {
	work, ready, free := 0.0, 0, 0
	for _, block := range m.classes {
		if n := len(block.ready); n > 0 {
			ready += n
			work += float64(n) * m.foresight.Expected(block.ready[0].No).Seconds()
		}
	}
	for _, row := range m.rows {
		free += max(0, row.places.FreeSlots)
	}
	if ready <= free {
		return 0
	}
	return work / float64(ready) * float64(ready-free) / float64(max(1, m.slots))
}

// openings are the seconds until each slot of a pilot is free, soonest first; none
// where it takes no work.
type openings []float64

func (m *Matrix) openings(row *pilotRow) openings {
	load, ok := m.foresight.Occupancy(row.pilot)
	if !ok || row.places.Closed {
		return nil
	}
	return load.openings()
}

func (o *Occupancy) openings() openings {
	free := make(openings, max(o.Slots, len(o.Running)))
	for i, r := range o.Running {
		free[i] = r.Left.Seconds()
	}
	slices.Sort(free)
	for _, run := range o.Given {
		free.use(run)
	}
	return free
}

// Wait is how long it is until a pilot comes to what it is given after so many of
// the tasks that it was given early.
func (o Occupancy) Wait(after int) time.Duration {
	o.Given = o.Given[:min(after, len(o.Given))]
	return time.Duration(o.openings().first() * float64(time.Second))
}

func (o openings) first() float64 {
	if len(o) == 0 {
		return math.Inf(1)
	}
	return o[0]
}

// use has the slot that is free first run one more task.
func (o openings) use(run time.Duration) {
	if len(o) == 0 {
		return
	}
	o[0] += run.Seconds()
	for i := 1; i < len(o) && o[i-1] > o[i]; i++ {
		o[i-1], o[i] = o[i], o[i-1]
	}
}
