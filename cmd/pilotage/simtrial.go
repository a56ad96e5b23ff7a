package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/matcher/replica"
	"github.com/pilotage-grid/pilotage/sim/grid"
)

// siteTrial are settings of a site, by the flags of site add, that a simulation
// tries.
type siteTrial struct {
	solver, replicate string
	wait              time.Duration
	given             []string // the flags that were given
}

func (s *siteTrial) flags(flags *pflag.FlagSet) {
	flags.StringVar(&s.solver, "solver", "", "who gets which task, as if the site had this solver: greedy, exact, sequential, choose(N) or dad(THRESHOLD,PASSES)")
	flags.DurationVar(&s.wait, "locality-wait", 0, "how long a free slot leaves tasks to pilots that have their inputs, as if the site had this setting; 0: not at all")
	flags.StringVar(&s.replicate, "replicate", "", "replica policies as if the site had these, for example alpha(15)")
}

// read notes which flags were given, and refuses what no site can have.
func (s *siteTrial) read(flags *pflag.FlagSet) error {
	for _, name := range []string{"solver", "locality-wait", "replicate"} {
		if flags.Changed(name) {
			s.given = append(s.given, name)
		}
	}
	if _, err := matcher.ParseSolver(s.solver); err != nil {
		return fmt.Errorf("--solver: %w", err)
	}
	if _, err := replica.ParseChain(s.replicate); err != nil {
		return fmt.Errorf("--replicate: %w", err)
	}
	return checkLocalityWait(s.wait)
}

// apply has simulated sites take the settings that were given.
func (s *siteTrial) apply(sites []grid.Site) {
	for i := range sites {
		site := &sites[i]
		s.change(&site.Solver, &site.LocalityWait, &site.Replicate)
		if slices.Contains(s.given, "locality-wait") && s.wait == 0 {
			site.LocalityWait = -1 // none
		}
	}
}

// change sets those of a site's settings that were given.
func (s *siteTrial) change(solver *string, wait *time.Duration, replicate *string) {
	for _, name := range s.given {
		switch name {
		case "solver":
			*solver = s.solver
		case "locality-wait":
			*wait = s.wait
		case "replicate":
			*replicate = s.replicate
		}
	}
}
