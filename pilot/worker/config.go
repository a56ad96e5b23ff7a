package worker

import "time"

// Config holds a worker's timings. The zero value is DefaultConfig.
type Config struct {
	// ReportDelay gathers a worker's news for its master; outcomes and freed
	// slots do not wait, or a quarter of it while work for more than the freed
	// slots is at hand.
	ReportDelay time.Duration
	// RepeatAfter is how long the master may leave news unanswered before it is
	// told again.
	RepeatAfter time.Duration
	// ResendAfter is how long a worker without master waits before it
	// delivers outcomes to the queue itself.
	ResendAfter time.Duration
	// PauseAfter is how many tasks in a row must fail through a pilot before it
	// takes no work for PauseLeast, twice as long each further time, at the
	// longest PauseMost.
	PauseAfter            int
	PauseLeast, PauseMost time.Duration
}

// DefaultConfig returns the default timings.
func DefaultConfig() Config {
	return Config{
		ReportDelay: 20 * time.Millisecond, RepeatAfter: 30 * time.Second, ResendAfter: 5 * time.Second,
		PauseAfter: 3, PauseLeast: 30 * time.Second, PauseMost: 10 * time.Minute,
	}
}
