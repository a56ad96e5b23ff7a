package paper

import (
	"fmt"
	"strings"
	"time"

	"github.com/pilotage-grid/pilotage/sim/chart"
	"github.com/pilotage-grid/pilotage/sim/manysites"
)

// Options004 say how large the grid of many sites is.
type Options004 struct {
	Sites, Pilots, Tasks int // pilots of each site
	// Setting plays one of Settings004 only; "" is all, at once.
	Setting string
	// Watch, if set, is called where a run is carried out and returns a clock of
	// the processor time that it uses.
	Watch func() (clock func() time.Duration, stop func())
	// Noted, if set, is told how far the run of a setting is, some hundred times
	// and from where it is carried out: the virtual time and the tasks done.
	Noted func(setting string, at time.Duration, done int)
	Effort
}

// setting004 is how sites assign tasks.
type setting004 struct {
	word    string
	name    string
	period  time.Duration
	prefill int
}

var settings004 = []setting004{
	{"rounds", "rounds every 20 s, nothing early (the paper's)", 20 * time.Second, 0},
	{"events", "event-driven, one task early (our default)", 0, 1},
}

// Settings004 are how sites may assign tasks.
func Settings004() (words []string) {
	for _, s := range settings004 {
		words = append(words, s.word)
	}
	return words
}

// lab004 holds the runs.
type lab004 struct {
	Options004
	settings []setting004
	runs     []*manysites.Result // by setting
}

// Run004 plays the distributed architecture of paper 004 at many sites.
func Run004(options Options004) (*Report, error) {
	l := &lab004{Options004: options}
	for _, s := range settings004 {
		if options.Setting == "" || options.Setting == s.word {
			l.settings = append(l.settings, s)
		}
	}
	if len(l.settings) == 0 {
		return nil, fmt.Errorf("paper 004: there is no setting %q: give one of %s", options.Setting, strings.Join(Settings004(), ", "))
	}
	l.runs = make([]*manysites.Result, len(l.settings))
	err := l.each(len(l.settings), func(i int) (err error) {
		l.runs[i], err = l.run(l.settings[i])
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("paper 004: %w", err)
	}
	return &Report{
		Paper: "004", Title: fmt.Sprintf("Paper 004 at %d sites of %d pilots with %d tasks", l.Sites, l.Pilots, l.Tasks),
		Choices: choices004(), Findings: l.findings(), Tables: []*chart.Table{l.table()},
		Figures: []*chart.Figure{l.occupation(), l.requests(), l.handOuts(), l.latencies(), l.delays()},
	}, nil
}

func (l *lab004) run(s setting004) (*manysites.Result, error) {
	config := manysites.DefaultConfig()
	config.Sites, config.Pilots, config.Tasks = l.Sites, l.Pilots, l.Tasks
	config.RoundEvery, config.Prefill = s.period, s.prefill
	if l.Watch != nil {
		clock, stop := l.Watch()
		defer stop()
		config.Stopwatch = clock
	}
	if l.Noted != nil {
		config.Noted = func(sample manysites.Sample) { l.Noted(s.word, sample.At, sample.Done) }
	}
	result, err := manysites.Run(config)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	return result, nil
}

func choices004() []string {
	c := manysites.DefaultConfig()
	return []string{
		"The queue's rules are production code over the store in memory. Sites are a model of the master and its pilots, which a test holds against the production cores: no files, no rank matrix (pilots are alike, the oldest task goes first), no failures. All pilots are there at the start.",
		fmt.Sprintf("Tasks take 0.7 to 1.3 of the paper's mean, 3.3 min. Messages take %s within a site and %s to the queue, one way. They are submitted in workflows of %d, one as soon as fewer tasks wait in the queue than there are slots; workflows that are over are forgotten.", c.Latency, c.QueueLatency, c.Workflow),
		fmt.Sprintf("The queue's server serves one call after the other. A call takes %s, and %s for each task submitted, %s handed out and %s for each outcome: rounded up from the processor time that the rules take here, which is in the table. A database on disk comes on top.", c.Service.Call, c.Service.Submitted, c.Service.Handed, c.Service.Outcome),
	}
}

func perTask(n int, r *lab004) float64 { return float64(n) / float64(r.Tasks) }

// told joins what is to be said of each setting.
func (l *lab004) told(of func(*manysites.Result) string) string {
	var parts []string
	for i, r := range l.runs {
		parts = append(parts, of(r)+" with "+l.settings[i].word)
	}
	return strings.Join(parts, ", ")
}

// played returns the run of a setting, nil if it was left out.
func (l *lab004) played(word string) *manysites.Result {
	for i, s := range l.settings {
		if s.word == word {
			return l.runs[i]
		}
	}
	return nil
}

func (l *lab004) findings() []Finding {
	delay, filled := time.Duration(0), true
	if rounds := l.played("rounds"); rounds != nil {
		delay = rounds.MeanDelay()
	}
	for _, r := range l.runs {
		filled = filled && r.FirstFill > 0 && r.FirstFill < time.Minute
	}
	return []Finding{
		{"queue requests per task, distributed (Fig. 2)", "around 5: each pilot calls for itself, too",
			l.told(func(r *manysites.Result) string { return fmt.Sprintf("%.3f", perTask(r.Requests, l)) }) + ": only masters call", false},
		{"distributed: the delay does not depend on size and is about the period (Fig. 3)", "about 20 s",
			l.told(func(r *manysites.Result) string { return short(r.MeanDelay()) }), delay >= 15*time.Second && delay <= 25*time.Second},
		{"all slots run their first job (Fig. 5, pre-DHT: almost 10 minutes)", "soon (Fig. 6); here: within a tenth of those 10 minutes",
			l.told(func(r *manysites.Result) string { return fmt.Sprintf("after %.1f s", r.FirstFill.Seconds()) }) + ", the submission included", filled},
	}
}

func short(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%.2f ms", d.Seconds()*1000)
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// steady is the share of slots that run a payload, from the first fill until
// the queue has handed out everything, in percent; "-" where that comes first.
func (l *lab004) steady(r *manysites.Result) string {
	busy, samples, handed := 0.0, 0, 0
	for _, s := range r.Samples {
		handed += s.Handed
		if r.FirstFill == 0 || s.At < r.FirstFill || handed >= l.Tasks {
			continue
		}
		busy += float64(s.Busy)
		samples++
	}
	if samples == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", 100*busy/float64(samples)/float64(l.Sites*l.Pilots))
}

// table has a row for each figure and a column for each setting.
func (l *lab004) table() *chart.Table {
	t := &chart.Table{Name: "many-sites", Title: "What the queue and the slots do", Header: []string{"figure"}}
	for _, s := range l.settings {
		t.Header = append(t.Header, s.name)
	}
	size := func(h *manysites.HandOut) float64 { return float64(h.Tasks) }
	took := func(h *manysites.HandOut) float64 { return h.Took.Seconds() * 1000 }
	cost := func(h *manysites.HandOut) float64 { return h.Cost.Seconds() * 1000 }
	row := func(name string, of func(r *manysites.Result) string) {
		cells := []string{name}
		for _, r := range l.runs {
			cells = append(cells, of(r))
		}
		t.Rows = append(t.Rows, cells)
	}
	spread := func(of func(*manysites.HandOut) float64, format string) func(*manysites.Result) string {
		return func(r *manysites.Result) string {
			return fmt.Sprintf(format+" / "+format+" / "+format, r.Quantile(.5, of), r.Quantile(.95, of), r.Quantile(1, of))
		}
	}
	row("queue requests per task", func(r *manysites.Result) string { return fmt.Sprintf("%.3f", perTask(r.Requests, l)) })
	row("requests per second", func(r *manysites.Result) string {
		return fmt.Sprintf("%.0f", float64(r.Requests)/r.Makespan.Seconds())
	})
	row("hand-outs", func(r *manysites.Result) string { return fmt.Sprint(len(r.HandOuts)) })
	row("tasks in a hand-out: median / 95 % / most", spread(size, "%.0f"))
	row("its latency (ms): median / 95 % / most", spread(took, "%.0f"))
	row("its processor time in the rules (ms): median / 95 % / most", spread(cost, "%.1f"))
	row("processor time of the rules per task (us), submission included", func(r *manysites.Result) string {
		return fmt.Sprintf("%.0f", r.Cost.Seconds()*1e6/float64(l.Tasks))
	})
	row("... of it, submission", func(r *manysites.Result) string {
		return fmt.Sprintf("%.0f", r.SubmitCost.Seconds()*1e6/float64(l.Tasks))
	})
	row("server busy (%)", func(r *manysites.Result) string {
		return fmt.Sprintf("%.1f", 100*r.Served.Seconds()/r.Makespan.Seconds())
	})
	row("inter-task delay, mean", func(r *manysites.Result) string { return short(r.MeanDelay()) })
	row("all slots have run something after (s)", func(r *manysites.Result) string { return fmt.Sprintf("%.1f", r.FirstFill.Seconds()) })
	row("slots occupied from then until all is handed out (%)", l.steady)
	row("slots occupied over the makespan (%)", func(r *manysites.Result) string { return fmt.Sprintf("%.1f", 100*r.Occupation) })
	row("makespan (s)", func(r *manysites.Result) string { return fmt.Sprintf("%.0f", r.Makespan.Seconds()) })
	row("events simulated", func(r *manysites.Result) string { return fmt.Sprint(r.Events) })
	return t
}
