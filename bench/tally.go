package bench

import (
	"fmt"
	"slices"
	"time"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
)

// tally takes the figures of a run from the attempts that the queue recorded.
type tally struct {
	began  time.Time
	pilots int

	delays     []time.Duration
	attempts   int
	first      map[string]time.Time // when each pilot started its first payload
	ends       map[string]time.Time // when the maker of a file ended
	maker      map[string]string    // its pilot
	readers    []turn               // that have inputs
	duplicates int
	lost       []string
	cache      CacheFigures
	turns      map[string][]turn          // what each pilot ran, if that has one slot
	touched    map[string]map[string]bool // files that each pilot has made or read
}

// turn is one payload on a slot.
type turn struct {
	started, ended time.Time
	inputs         []string
}

// mostLost bounds how many lost tasks are described.
const mostLost = 10

func newTally(began time.Time, pilots int) *tally {
	return &tally{
		began: began, pilots: pilots, first: make(map[string]time.Time),
		ends: make(map[string]time.Time), maker: make(map[string]string), turns: make(map[string][]turn),
		touched: make(map[string]map[string]bool),
	}
}

// take looks at one task.
func (t *tally) take(info *pb.TaskInfo) {
	if info.GetState() != pb.TaskState_TASK_STATE_DONE && len(t.lost) < mostLost {
		t.lost = append(t.lost, fmt.Sprintf("%s %s: %s (%d failures) %s", info.GetTask().GetId(), info.GetState(), info.GetReason(), info.GetFailures(), info.GetUpstream()))
	}
	for _, attempt := range info.GetAttempts() {
		outcome := attempt.GetOutcome()
		if attempt.GetState() == pb.AttemptState_ATTEMPT_STATE_DUPLICATE {
			t.duplicates++
		}
		if !outcome.GetOk() {
			continue
		}
		t.attempts++
		t.attempt(outcome)
	}
}

func (t *tally) attempt(outcome *pb.Outcome) {
	pilot, started := outcome.GetAttempt().GetPilot(), outcome.GetStarted().AsTime()
	if at, known := t.first[pilot]; !known || started.Before(at) {
		t.first[pilot] = started
	}
	if outcome.Delay != nil {
		t.delays = append(t.delays, outcome.GetDelay().AsDuration())
	}
	if t.touched[pilot] == nil {
		t.touched[pilot] = make(map[string]bool)
	}
	for _, output := range outcome.GetOutputs() {
		t.touched[pilot][output.GetLfn()] = true
		t.ends[output.GetLfn()], t.maker[output.GetLfn()] = outcome.GetEnded().AsTime(), pilot
	}
	one := turn{started: started, ended: outcome.GetEnded().AsTime()}
	for _, read := range outcome.GetReads() {
		one.inputs = append(one.inputs, read.GetLfn())
		t.touched[pilot][read.GetLfn()] = true
		switch task.Source(int(read.GetSource()) - 1) {
		case task.SourceLocal:
			t.cache.Local++
		case task.SourcePeer:
			t.cache.Peer++
		default:
			t.cache.SE++
		}
	}
	if len(one.inputs) > 0 {
		t.readers = append(t.readers, one)
	}
	t.turns[pilot] = append(t.turns[pilot], one)
}

// slotChange is the time that a slot was free although the task that came next
// could have been run.
type slotChange struct {
	at   time.Time // when that one started
	free time.Duration
}

// slotChanges looks at what came next on every slot, in no order: how long the
// slot was free, and, where the next task could not have been run when it
// became free, how long after the end of the last maker of its inputs it
// started.
func (t *tally) slotChanges() (changes []slotChange, dependencies []time.Duration) {
	for _, turns := range t.turns {
		slices.SortFunc(turns, func(a, b turn) int { return a.started.Compare(b.started) })
		free := t.began
		for i, next := range turns {
			made := t.began
			for _, input := range next.inputs {
				if end := t.ends[input]; end.After(made) {
					made = end
				}
			}
			switch {
			case made.After(free):
				dependencies = append(dependencies, max(0, next.started.Sub(made)))
			case i > 0:
				changes = append(changes, slotChange{at: next.started, free: max(0, next.started.Sub(free))})
			}
			free = next.ended
		}
	}
	return changes, dependencies
}

// sumUp fills in what follows from all attempts.
func (t *tally) sumUp(r *OverlayResult) {
	r.Duplicates, r.Lost = t.duplicates, t.lost
	r.InterTaskDelay = Distribute(t.delays)
	r.DelayShare = float64(len(t.delays)) / float64(max(1, t.attempts-len(t.first)))
	changes, dependencies := t.slotChanges()
	free := make([]time.Duration, len(changes))
	for i, change := range changes {
		free[i] = change.free
	}
	r.SlotChange = Distribute(free)
	r.SlotChangeShare = float64(len(changes)) / float64(max(1, t.attempts-len(t.first)))
	for _, at := range t.first {
		r.FirstFill = max(r.FirstFill, at.Sub(t.began).Seconds())
	}
	r.FilledSlots = len(t.first)
	evictions := r.Cache.Evictions
	r.Cache = t.cache
	r.Cache.Evictions = evictions
	if all := float64(t.cache.Local + t.cache.Peer + t.cache.SE); all > 0 {
		r.Cache.TotalHits = float64(t.cache.Local+t.cache.Peer) / all
		r.Cache.LocalHits = float64(t.cache.Local) / all
	}
	files := 0
	for _, touched := range t.touched {
		files += len(touched)
	}
	if files > 0 {
		r.Cache.WorkingSet = float64(files) / float64(len(t.touched))
		r.Cache.Capacity = float64(r.CacheFiles) / r.Cache.WorkingSet
	}
	best, all := 0, 0
	for _, reader := range t.readers {
		made := map[string]int{}
		for _, input := range reader.inputs {
			made[t.maker[input]]++
		}
		most := 0
		for _, count := range made {
			most = max(most, count)
		}
		best, all = best+most, all+len(reader.inputs)
	}
	if all > 0 {
		r.Cache.BestLocalHits = float64(best) / float64(all)
		r.DependencyShare = float64(len(dependencies)) / float64(len(t.readers))
	}
	r.DependencyDelay = Distribute(dependencies)
}
