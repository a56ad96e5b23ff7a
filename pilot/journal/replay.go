package journal

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/master"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// Replay says how to play a journal.
type Replay struct {
	// Change alters the site's settings wherever the master is told them; nil
	// leaves them.
	Change func(*task.SiteSettings)
}

// Difference is the first step in which replay and record part.
type Difference struct {
	Step     int           // from 1
	After    time.Duration // the first step
	Recorded []Assigned
	Replayed []Assigned
}

// Result compares a replay with its journal.
type Result struct {
	Header   Header
	Steps    int           // events played
	Span     time.Duration // from the first event to the last
	Recorded int           // assignments in the journal
	Replayed int           // assignments of the replay
	Same     int           // of those, the same task to the same pilot in the same step
	Changed  int           // tasks that went to another pilot than in the journal, by their last assignment
	First    *Difference   // nil when all is the same
	Cut      bool          // the journal ends within a record: its writer was killed
}

// compilerSize is how many compiled expressions the core keeps.
const compilerSize = 1024

// Run plays a journal to a new core. After a difference the journal goes on
// telling what happened under the recorded assignments, so what the core does
// from then on is its answer to the recorded site, not a forecast.
func (p Replay) Run(from io.Reader) (Result, error) {
	var result Result
	reader, err := open(from)
	if err != nil {
		return Result{}, err
	}
	result.Header = reader.header
	run := &run{
		Result: &result, replay: p, recorded: map[task.ID]task.PeerID{}, replayed: map[task.ID]task.PeerID{},
		core: master.New(result.Header.Config, result.Header.Pilot, matcher.NewCompiler(compilerSize)),
	}
	if result.Cut, err = reader.each(run.take); err != nil {
		return Result{}, fmt.Errorf("read the journal after step %d: %w", result.Steps, err)
	}
	run.compare(nil)
	for id, peer := range run.recorded {
		if run.replayed[id] != peer {
			result.Changed++
		}
	}
	return result, nil
}

// run is a replay under way.
type run struct {
	*Result
	replay   Replay
	core     *master.Master
	first    time.Time
	open     bool // the last step is not compared yet
	assigned []Assigned
	recorded map[task.ID]task.PeerID
	replayed map[task.ID]task.PeerID
}

func (r *run) take(next record) error {
	if next.Assigned != nil {
		r.compare(next.Assigned)
		return nil
	}
	r.compare(nil)
	if r.Steps++; r.Steps == 1 {
		r.first = next.At
	}
	r.Span, r.open = next.At.Sub(r.first), true
	r.assigned = assignedBy(r.core.Step(next.At, r.change(next.Event)))
	return nil
}

// change puts the other settings into an event that has settings.
func (r *run) change(event message.Event) message.Event {
	if r.replay.Change == nil {
		return event
	}
	switch e := event.(type) {
	case master.TookOffice:
		if e.Settings.Site != "" {
			r.replay.Change(&e.Settings)
		}
		return e
	case master.SyncAnswered:
		if e.Reply.Settings.Site != "" {
			r.replay.Change(&e.Reply.Settings)
		}
		return e
	}
	return event
}

// compare ends a step.
func (r *run) compare(recorded []Assigned) {
	if !r.open {
		return
	}
	r.open = false
	r.Recorded += len(recorded)
	r.Replayed += len(r.assigned)
	for _, a := range recorded {
		r.recorded[a.Task] = a.Peer
		if slices.Contains(r.assigned, a) {
			r.Same++
		}
	}
	for _, a := range r.assigned {
		r.replayed[a.Task] = a.Peer
	}
	if r.First == nil && !slices.Equal(recorded, r.assigned) {
		r.First = &Difference{Step: r.Steps, After: r.Span, Recorded: recorded, Replayed: r.assigned}
	}
}
