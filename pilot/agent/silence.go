package agent

import (
	"log/slog"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// silenceTold is how long the queue may be away before a master says so: a
// restart of the queue takes less.
const silenceTold = 10 * time.Second

// silence tells once when the queue has been away for a while, and once when
// it is back. It is not safe for concurrent use.
type silence struct {
	since time.Time // of the first call that failed; zero while the queue answers
	told  bool
}

// note takes in how a Sync ended.
func (s *silence) note(log *slog.Logger, err error, now time.Time) {
	switch {
	case err == nil:
		if s.told {
			log.Info("the queue answers again", "away", now.Sub(s.since).Round(time.Second))
		}
		s.since, s.told = time.Time{}, false
	case s.since.IsZero():
		s.since = now
	case !s.told && now.Sub(s.since) >= silenceTold:
		s.told = true
		log.Warn("the queue does not answer; the site goes on with the tasks that it holds, and outcomes are kept",
			"away", now.Sub(s.since).Round(time.Second), "error", err)
	}
}

// noteVerdicts says once that the queue knows nothing of attempts of which it was
// told outcomes.
func (a *Agent) noteVerdicts(acks []task.Ack) {
	unknown := slices.IndexFunc(acks, func(ack task.Ack) bool { return ack.Verdict == task.AckUnknown })
	if unknown < 0 || a.unknown {
		return
	}
	a.unknown = true
	a.log.Warn("the queue takes no outcomes of attempts that it knows nothing of, as after going back to a backup; what it still wants is run again",
		"first", acks[unknown].Attempt)
}
