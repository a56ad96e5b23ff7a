package matcher

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

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
	waits     time.Duration               // 0: no task is left to anybody
	pace      float64                     // of stage-in
	running   map[task.PilotID][]Occupant // what holds the slots of pilots
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
		pilots: make(map[task.PilotID]*densePilot), running: make(map[task.PilotID][]Occupant),
	}
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
		cmp.Compare(b.Rank, a.Rank),
		cmp.Compare(a.order, b.order), cmp.Compare(a.No, b.No), cmp.Compare(a.Pilot, b.Pilot),
	)
}

// gain is the seconds by which a pilot ranks a task above its class.
func (d *denseSite) gain(id task.PilotID, no uint64) float64 {
	p, t := d.pilots[id], d.tasks[no]
	answer, answered := p.answers[t.Class]
	exception, excepted := p.exceptions[no]
	if !answered || !answer.Feasible || !excepted || exception.Infeasible || t.Version > p.version {
		return 0
	}
	return max(0, exception.Rank-answer.Base-t.EntryBase)
}

// waits is how many seconds it is until a pilot comes to each task that it gains
// something by: it runs them one by one as it ranks them, each in the slot that is
// free first.
func (d *denseSite) comesTo(id task.PilotID) map[uint64]float64 {
	var own []densePair
	for no, t := range d.tasks {
		if rank, _ := d.rank(id, no); t.ready && d.gain(id, no) > 0 {
			own = append(own, densePair{Assignment{id, no, rank, false}, t.Priority, t.starving, t.Order})
		}
	}
	slices.SortFunc(own, densePair.compare)
	free := make([]float64, twinSlots)
	for i, r := range d.running[id] {
		free[i] = r.Left.Seconds()
	}
	waits := make(map[uint64]float64)
	for _, pair := range own {
		first := slices.Index(free, slices.Min(free))
		if free[first] > max(d.waits, d.backlog()).Seconds() {
			break
		}
		waits[pair.No] = free[first]
		free[first] += twinRun.Seconds()
	}
	return waits
}

// backlog is how long it is until the site finds no free slot for what is ready.
func (d *denseSite) backlog() time.Duration {
	beyond := len(d.ready())
	for _, p := range d.pilots {
		beyond -= p.places.FreeSlots
	}
	return time.Duration(max(0, beyond)) * twinRun / (twinPilots * twinSlots)
}

// left lists for each pilot the tasks that it may not have: those that start sooner
// at another one for a free slot; early, those that the site does not come to
// before that one, where they cost more.
func (d *denseSite) left(prefill bool) map[task.PilotID]map[uint64]bool {
	left := make(map[task.PilotID]map[uint64]bool)
	if d.waits == 0 {
		return left
	}
	backlog := d.backlog().Seconds()
	for there := range d.pilots {
		for no, wait := range d.comesTo(there) {
			for here := range d.pilots {
				loss := d.pace*d.gain(there, no) - d.pace*d.gain(here, no)
				switch {
				case prefill:
					loss -= max(0, wait-backlog)
				case wait > d.waits.Seconds():
					continue
				default:
					loss -= wait
				}
				if here != there && loss > 0 && !d.tasks[no].starving {
					if left[here] == nil {
						left[here] = make(map[uint64]bool)
					}
					left[here][no] = true
				}
			}
		}
	}
	return left
}

// solveKind fills the places of one kind with what is not left to others.
func (d *denseSite) solveKind(prefill bool, left map[task.PilotID]map[uint64]bool) (result []Assignment) {
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
				if !t.ready || !fits || !feasible || left[id][no] {
					continue
				}
				pair := densePair{Assignment{id, no, rank, prefill}, t.Priority, t.starving, t.Order}
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
	now, early := d.left(false), d.left(true)
	result := append(d.solveKind(false, now), d.solveKind(true, early)...)
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

// forgetUnknown drops exceptions about tasks that are no more.
func (d *denseSite) forgetUnknown() {
	for _, p := range d.pilots {
		maps.DeleteFunc(p.exceptions, func(no uint64, _ Exception) bool { return d.tasks[no] == nil })
	}
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
