package factory

import (
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// Shape describes one kind of pilot job: what the batch system is asked for,
// and what the pilot then offers.
type Shape struct {
	Name      string         `yaml:"name"`
	Arguments []string       `yaml:"arguments,flow"` // for the batch system's submit command
	Resources task.Resources `yaml:"-"`
	Features  []string       `yaml:"features,flow"`
	Walltime  time.Duration  `yaml:"walltime"` // of the job
	Max       int            `yaml:"max"`      // most jobs of the shape, pending and running; 0 is the factory's
}

// walltimeMargin is what a pilot needs beside a task before its job ends: to
// start, to hand over and to leave.
func (s *Shape) walltimeMargin() time.Duration { return min(5*time.Minute, s.Walltime/10) }

// Lifetime is how long a pilot of the shape lives, and its tasks may at most.
func (s *Shape) Lifetime() time.Duration { return s.Walltime - s.walltimeMargin() }

// places is how many tasks of a class run at once in so much of a pilot.
func places(free, need task.Resources) int {
	n := -1
	for _, resource := range task.AllResources {
		if amount := resource.Get(need); amount > 0 {
			if fit := int(max(0, resource.Get(free)) / amount); n < 0 || fit < n {
				n = fit
			}
		}
	}
	return max(0, n)
}

// lacks words why the shape cannot run a class; "" is that it can. Requirements
// are judged by the caller, who has an evaluator.
func (s *Shape) lacks(c *Class) string {
	if lacking, found := s.Resources.Lacking(c.Resources); found {
		return fmt.Sprintf("needs %s %s, shape %s has %s", lacking.Text(lacking.Get(c.Resources)), lacking.Name, s.Name, lacking.Text(lacking.Get(s.Resources)))
	}
	if c.Walltime > s.Lifetime() {
		return fmt.Sprintf("needs %s, shape %s has %s less %s", c.Walltime, s.Name, s.Walltime, s.walltimeMargin())
	}
	if slices.Contains(c.Unfit, s.Name) {
		return fmt.Sprintf("its requirement fails at shape %s: %s", s.Name, task.Brief(c.Require))
	}
	return ""
}

var shapeName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,30}$`)

// Limits of a configuration.
const (
	maxShapes = 20
	maxJobs   = 100_000
)

// Validate refuses what no site can mean.
func (c *Config) Validate() error {
	if _, err := task.ParseSite(string(c.Site)); err != nil {
		return fmt.Errorf("site: %w", err)
	}
	if len(c.Shapes) == 0 || len(c.Shapes) > maxShapes {
		return fmt.Errorf("%d shapes of pilot jobs: give 1 to %d", len(c.Shapes), maxShapes)
	}
	if c.Min < 0 || c.Max < 1 || c.Min > c.Max || c.Max > maxJobs {
		return fmt.Errorf("min %d and max %d: give 0 <= min <= max and 1 <= max <= %d", c.Min, c.Max, maxJobs)
	}
	if c.Backlog < 1 {
		return fmt.Errorf("backlog %d: at least one job has to wait in the batch system before it runs", c.Backlog)
	}
	known := make(map[string]bool)
	for i := range c.Shapes {
		s := &c.Shapes[i]
		switch {
		case !shapeName.MatchString(s.Name):
			return fmt.Errorf("shape %q: give a name of at most 31 of a-z, 0-9 and -, with a letter first", s.Name)
		case known[s.Name]:
			return fmt.Errorf("shape %s stands twice", s.Name)
		case s.Resources.Cores < 1:
			return fmt.Errorf("shape %s has no cores", s.Name)
		case s.Walltime < time.Minute:
			return fmt.Errorf("shape %s has a walltime of %s: give at least 1m", s.Name, s.Walltime)
		case s.Max < 0:
			return fmt.Errorf("shape %s: max is %d", s.Name, s.Max)
		}
		if err := s.Resources.Validate(); err != nil {
			return fmt.Errorf("shape %s: %w", s.Name, err)
		}
		known[s.Name] = true
	}
	return nil
}
