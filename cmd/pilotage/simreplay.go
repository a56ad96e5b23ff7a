package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/pilotage-grid/pilotage/pilot/journal"
	"github.com/pilotage-grid/pilotage/task"
)

type replayFlags struct {
	prefill int
	period  time.Duration
	site    siteTrial
}

func (a simCommands) replay() *cobra.Command {
	f := &replayFlags{}
	command := &cobra.Command{
		Use:   "replay JOURNAL",
		Short: "Play a master's journal again, and compare its assignments",
		Long: `Plays what a live master was told (pilotage pilot --journal FILE) to the same core
again. Without other flags every task goes to the same pilot at the same moment;
a settings flag shows what the master would have assigned with the same knowledge.
After the first difference the journal goes on telling what happened under the
recorded assignments: what follows is no forecast, for that see sim run.

Exits with 1 when nothing was changed and the assignments differ all the same.`,
		Example: `  pilotage sim replay siteA.journal
  pilotage sim replay siteA.journal --prefill 0
  pilotage sim replay siteA.journal --solver exact --locality-wait 0`,
		Args: asUsed,
		RunE: func(c *cobra.Command, args []string) error { return a.simReplay(c, f, args[0]) },
	}
	flags := command.Flags()
	flags.IntVar(&f.prefill, "prefill", 0, "assign as if the site's prefill were this")
	flags.DurationVar(&f.period, "round-period", 0, "assign as if the site's rounds had this period; 0 is whenever something changes")
	f.site.flags(flags)
	return command
}

// replayed is the JSON of sim replay.
type replayed struct {
	Version     string  `json:"version"`
	Site        string  `json:"site"`
	Pilot       string  `json:"pilot"`
	Steps       int     `json:"steps"`
	SpanSeconds float64 `json:"span_seconds"`
	Recorded    int     `json:"recorded_assignments"`
	Replayed    int     `json:"replayed_assignments"`
	Same        int     `json:"same_assignments"`
	Changed     int     `json:"tasks_given_to_others"`
	FirstStep   int     `json:"first_difference_step"` // 0 for none
	FirstAfter  float64 `json:"first_difference_seconds"`
	Cut         bool    `json:"cut"`
}

func (a simCommands) simReplay(c *cobra.Command, f *replayFlags, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return usage(fmt.Errorf("open the journal: %w", err))
	}
	defer func() { _ = file.Close() }()
	replay := journal.Replay{}
	if replay.Change, err = f.change(c); err != nil {
		return usage(err)
	}
	result, err := replay.Run(file)
	if err != nil {
		return usage(fmt.Errorf("%s: %w", path, err))
	}
	if err := a.out.print(replayedOf(result), []string{"REPLAY", ""}, replayRows(result)); err != nil {
		return err
	}
	if d := result.First; d != nil && replay.Change == nil {
		return fmt.Errorf("step %d assigns %v, and %v was recorded: was the journal written by pilotage %s with the same settings of its core?",
			d.Step, d.Replayed, d.Recorded, result.Header.Version)
	}
	return nil
}

// change is what the flags do to the site's settings; nil for nothing.
func (f *replayFlags) change(c *cobra.Command) (func(*task.SiteSettings), error) {
	prefill, period := c.Flags().Changed("prefill"), c.Flags().Changed("round-period")
	if err := f.site.read(c.Flags()); err != nil {
		return nil, err
	}
	if !prefill && !period && len(f.site.given) == 0 {
		return nil, nil
	}
	return func(s *task.SiteSettings) {
		if prefill {
			s.Prefill = f.prefill
		}
		if period {
			s.RoundEvery = f.period
		}
		f.site.change(&s.Solver, &s.LocalityWait, &s.Replicate)
	}, nil
}

func replayedOf(r journal.Result) replayed {
	out := replayed{
		Version: r.Header.Version, Site: string(r.Header.Site), Pilot: string(r.Header.Pilot), Steps: r.Steps,
		SpanSeconds: r.Span.Seconds(), Recorded: r.Recorded, Replayed: r.Replayed, Same: r.Same, Changed: r.Changed, Cut: r.Cut,
	}
	if r.First != nil {
		out.FirstStep, out.FirstAfter = r.First.Step, r.First.After.Seconds()
	}
	return out
}

func replayRows(r journal.Result) [][]string {
	first := "none: all is assigned as it was"
	if r.First != nil {
		first = fmt.Sprintf("in step %d, after %s s", r.First.Step, decimal(r.First.After.Seconds()))
	}
	rows := [][]string{
		{"master", string(r.Header.Pilot) + " of " + string(r.Header.Site) + ", pilotage " + r.Header.Version},
		{"steps", strconv.Itoa(r.Steps) + " in " + decimal(r.Span.Seconds()) + " s"},
		{"assignments recorded", strconv.Itoa(r.Recorded)},
		{"assignments replayed", fmt.Sprintf("%d, of these %d the same", r.Replayed, r.Same)},
		{"tasks given to others", strconv.Itoa(r.Changed)},
		{"first difference", first},
	}
	if r.Cut {
		rows = append(rows, []string{"end", "within a record: its pilot was killed"})
	}
	return rows
}
