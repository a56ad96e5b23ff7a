package matcher

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/pilotage-grid/pilotage/task"
)

// denseSite is the obvious matrix: every pair is looked at, again and again.
type denseSite struct {
	needs     map[uint32]task.Resources
	tasks     map[uint64]*denseTask
	pilots    map[task.PilotID]*densePilot
	passLimit int
	every     int // placements between two counts
	placed    int
	pending   []densePlacement
	colocates bool                    // companions are kept together
	homes     map[uint64]task.PilotID // of companies
	begun     map[uint64]task.PilotID // of those without home, in this solution
}

type densePlacement struct {
	pilot  *densePilot
	task   *denseTask
	serial int
}

type denseTask struct {
	MatrixTask
	ready    bool
	since    int // placements when it became ready
	passes   int
	starving bool
	company  uint64
}

type densePilot struct {
	answered   bool
	version    uint64
	answers    map[uint32]ClassAnswer
	exceptions map[uint64]Exception
	places     Places
}

func newDenseSite() *denseSite {
	return &denseSite{
		needs: make(map[uint32]task.Resources), tasks: make(map[uint64]*denseTask),
		pilots: make(map[task.PilotID]*densePilot), homes: make(map[uint64]task.PilotID),
	}
}

// promised is the pilot that a task is promised to.
func (d *denseSite) promised(no uint64) task.PilotID {
	t := d.tasks[no]
	if !d.colocates {
		return ""
	}
	home := cmp.Or(d.homes[t.company], d.begun[t.company])
	if _, feasible := d.rank(home, no); !feasible {
		return ""
	}
	return home
}

func (d *denseSite) pilot(id task.PilotID) *densePilot {
	if d.pilots[id] == nil {
		d.pilots[id] = &densePilot{answers: make(map[uint32]ClassAnswer), exceptions: make(map[uint64]Exception)}
	}
	return d.pilots[id]
}

func (d *denseSite) rank(id task.PilotID, no uint64) (float64, bool) {
	p, t := d.pilots[id], d.tasks[no]
	if p == nil || t == nil || !p.answered || t.Version > p.version {
		return 0, false
	}
	answer, found := p.answers[t.Class]
	if !found || !answer.Feasible {
		return 0, false
	}
	if exception, found := p.exceptions[no]; found {
		return exception.Rank, !exception.Infeasible
	}
	return answer.Base + t.EntryBase, !answer.PerTask
}

// sortKey compares pairs in the documented order, smaller first.
type densePair struct {
	Assignment
	priority int
	starving bool
	order    uint64
	late     bool // promised to another
	promised bool
}

func (a densePair) compare(b densePair) int {
	last := func(is bool) int {
		if is {
			return 1
		}
		return 0
	}
	return cmp.Or(
		cmp.Compare(b.priority, a.priority), cmp.Compare(last(!a.starving), last(!b.starving)),
		cmp.Compare(last(a.late), last(b.late)), cmp.Compare(b.Rank, a.Rank), cmp.Compare(last(!a.promised), last(!b.promised)),
		cmp.Compare(a.order, b.order), cmp.Compare(a.No, b.No), cmp.Compare(a.Pilot, b.Pilot),
	)
}

// raises tells whether a pilot ranks a task higher than its class.
func (d *denseSite) raises(id task.PilotID, no uint64) bool {
	p, t := d.pilots[id], d.tasks[no]
	answer, answered := p.answers[t.Class]
	exception, excepted := p.exceptions[no]
	return answered && answer.Feasible && !answer.PerTask && excepted && !exception.Infeasible &&
		exception.Rank > answer.Base+t.EntryBase
}

// kept lists the tasks that only those who raise them are given early.
func (d *denseSite) kept() map[uint64]bool {
	waiting := make(map[task.PilotID]int)
	for id := range d.pilots {
		for no, t := range d.tasks {
			if t.ready && d.raises(id, no) {
				waiting[id]++
			}
		}
	}
	kept := make(map[uint64]bool)
	for no, t := range d.tasks {
		keepers, soon := 0, false
		for id := range d.pilots {
			if d.raises(id, no) {
				keepers++
				soon = soon || waiting[id] <= keptMost
			}
		}
		kept[no] = !t.starving && keepers <= keepersMost && soon
	}
	return kept
}

// solveKind fills the places of one kind; of the tasks that are kept, only
// those that the pilot raises.
func (d *denseSite) solveKind(prefill bool, kept map[uint64]bool) (result []Assignment) {
	for {
		var best *densePair
		for id, p := range d.pilots {
			for no, t := range d.tasks {
				need := d.needs[t.Class]
				fits := p.places.FreeSlots > 0 && p.places.Free.Fits(need)
				if prefill {
					fits = p.places.Prefill > 0
				}
				rank, feasible := d.rank(id, no)
				if !t.ready || !fits || !feasible || kept[no] && !d.raises(id, no) {
					continue
				}
				home := d.promised(no)
				late := home != "" && home != id && !d.raises(id, no)
				if late && prefill {
					continue
				}
				pair := densePair{Assignment{id, no, rank, prefill}, t.Priority, t.starving, t.Order, late, home == id}
				if best == nil || pair.compare(*best) < 0 {
					best = &pair
				}
			}
		}
		if best == nil {
			return result
		}
		t, places := d.tasks[best.No], &d.pilots[best.Pilot].places
		t.ready = false
		if of := t.company; of != 0 && d.homes[of] == "" && d.begun[of] == "" && d.begun != nil {
			d.begun[of] = best.Pilot
		}
		if prefill {
			places.Prefill--
		} else {
			places.FreeSlots--
			places.Free = places.Free.Sub(d.needs[t.Class])
		}
		result = append(result, best.Assignment)
	}
}

// ready lists the tasks that wait.
func (d *denseSite) ready() (numbers []uint64) {
	for no, t := range d.tasks {
		if t.ready {
			numbers = append(numbers, no)
		}
	}
	return numbers
}

// solve follows 004, III-C, steps 1 to 4, to the letter.
func (d *denseSite) solve() []Assignment {
	kept := d.kept()
	d.begun = make(map[uint64]task.PilotID)
	result := append(d.solveKind(false, nil), d.solveKind(true, kept)...)
	for _, a := range result {
		d.placed++
		d.pending = append(d.pending, densePlacement{d.pilots[a.Pilot], d.tasks[a.No], d.placed})
	}
	if len(d.pending) > 0 && len(d.pending) >= d.every {
		d.countPasses()
		d.pending = nil
	}
	return result
}

func (d *denseSite) countPasses() {
	for _, t := range d.tasks {
		able := 0
		for _, p := range d.pilots {
			if p.answers[t.Class].Feasible {
				able++
			}
		}
		for _, p := range d.pending {
			if t.ready && p.pilot.answers[t.Class].Feasible && p.task.Order > t.Order && p.task.Priority <= t.Priority && p.serial > t.since {
				t.passes++
				t.starving = t.starving || t.passes >= d.passLimit*max(1, able)
			}
		}
	}
}

func (d *denseSite) remove(class uint32) {
	delete(d.needs, class)
	maps.DeleteFunc(d.tasks, func(_ uint64, t *denseTask) bool { return t.Class == class })
	for _, p := range d.pilots {
		delete(p.answers, class)
	}
	d.forgetUnknown()
}

// forgetUnknown drops exceptions about tasks that are no more, and companies
// without tasks.
func (d *denseSite) forgetUnknown() {
	maps.DeleteFunc(d.homes, func(of uint64, _ task.PilotID) bool { return !d.inUse(of) })
	for _, p := range d.pilots {
		maps.DeleteFunc(p.exceptions, func(no uint64, _ Exception) bool { return d.tasks[no] == nil })
	}
}

// inUse tells whether a task is in a company.
func (d *denseSite) inUse(of uint64) bool {
	for _, t := range d.tasks {
		if t.company == of {
			return true
		}
	}
	return false
}

func (d *denseSite) infeasible() (classes []uint32) {
	for class := range d.needs {
		failing := 0
		for _, p := range d.pilots {
			if answer, found := p.answers[class]; found && !answer.Feasible {
				failing++
			}
		}
		if failing > 0 && failing == len(d.pilots) {
			classes = append(classes, class)
		}
	}
	slices.Sort(classes)
	return classes
}

func pilotID(i int) task.PilotID { return task.PilotID(fmt.Sprintf("p-%08d", i)) }
