package bench

import (
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
	readers    []reader
	duplicates int
	cache      CacheFigures
}

// reader is a winning attempt of a task with inputs.
type reader struct {
	started time.Time
	waited  bool // its slot was free before its inputs existed
	inputs  []string
}

func newTally(began time.Time, pilots int) *tally {
	return &tally{
		began: began, pilots: pilots, first: make(map[string]time.Time),
		ends: make(map[string]time.Time), maker: make(map[string]string),
	}
}

// take looks at one task.
func (t *tally) take(info *pb.TaskInfo) {
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
	for _, output := range outcome.GetOutputs() {
		t.ends[output.GetLfn()], t.maker[output.GetLfn()] = outcome.GetEnded().AsTime(), pilot
	}
	reads := reader{started: started, waited: outcome.Delay == nil}
	for _, read := range outcome.GetReads() {
		reads.inputs = append(reads.inputs, read.GetLfn())
		switch task.Source(int(read.GetSource()) - 1) {
		case task.SourceLocal:
			t.cache.Local++
		case task.SourcePeer:
			t.cache.Peer++
		default:
			t.cache.SE++
		}
	}
	if len(reads.inputs) > 0 {
		t.readers = append(t.readers, reads)
	}
}

// sumUp fills in what follows from all attempts.
func (t *tally) sumUp(r *OverlayResult) {
	r.Duplicates = t.duplicates
	r.InterTaskDelay = Distribute(t.delays)
	r.DelayShare = float64(len(t.delays)) / float64(max(1, t.attempts-len(t.first)))
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
	var dependencies []time.Duration
	best, all := 0, 0
	for _, reader := range t.readers {
		made := map[string]int{}
		var last time.Time
		for _, input := range reader.inputs {
			made[t.maker[input]]++
			if end := t.ends[input]; end.After(last) {
				last = end
			}
		}
		most := 0
		for _, count := range made {
			most = max(most, count)
		}
		best, all = best+most, all+len(reader.inputs)
		if reader.waited {
			dependencies = append(dependencies, max(0, reader.started.Sub(last)))
		}
	}
	if all > 0 {
		r.Cache.BestLocalHits = float64(best) / float64(all)
		r.DependencyShare = float64(len(dependencies)) / float64(len(t.readers))
	}
	r.DependencyDelay = Distribute(dependencies)
}
