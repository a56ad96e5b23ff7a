package factory_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/pilot/factory"
	"github.com/pilotage-grid/pilotage/task"
)

// Jobs that die before a batch system lists them as running name their node in their
// logs: one bad node is left out, and does not hold the factory back.
func TestJobsThatDieUnseenNameTheirNode(t *testing.T) {
	for _, traced := range []bool{true, false} {
		s := newFarm(t)
		s.nodes, s.bad["n0"] = s.nodes[:4], true
		s.list = func(_ time.Time, job *farmJob) (factory.Listed, bool) {
			return job.Listed, !s.bad[job.Node]
		}
		s.traced = traced
		s.classes = []factory.Class{class(320, 1, task.GiB)}
		s.run(15 * time.Minute)
		died := 0
		for _, job := range s.jobs {
			if s.bad[job.Node] {
				died++
			}
		}
		if named := len(s.f.Status(s.now).Nodes) == 1 && strings.Contains(s.f.Status(s.now).Nodes[0].Why, "no such file"); named != traced {
			t.Errorf("traced %t, nodes: %+v", traced, s.f.Status(s.now).Nodes)
		}
		t.Logf("traced %t: %d jobs died, %d run", traced, died, s.in(factory.Running))
		if traced && (died > 12 || s.in(factory.Running) < 20) {
			t.Errorf("%d jobs died, %d run", died, s.in(factory.Running))
		}
	}
}

func TestABadNodeIsLeftOut(t *testing.T) {
	s := newFarm(t)
	s.bad["n3"] = true
	s.config.Max, s.slots = 30, 30
	s.restart()
	s.classes = []factory.Class{class(8000, 1, task.GiB)}
	s.run(4 * time.Hour)
	burnt := 0
	for _, job := range s.jobs {
		if job.Node == "n3" {
			burnt++
		}
	}
	if burnt == 0 || burnt > 14 { // one each time that it is let in again, and jobs that went there together
		t.Errorf("%d jobs went to the bad node in 4 hours", burnt)
	}
	if s.in(factory.Running) < 29 {
		t.Errorf("%d of 30 jobs run", s.in(factory.Running))
	}
	s.bad["n3"] = false
	s.run(2 * time.Hour)
	if len(s.f.Status(s.now).Excluded) != 0 {
		t.Errorf("left out after it was mended: %v", s.f.Status(s.now).Excluded)
	}
}

func TestWhenAllNodesFailNoneIsHeldAndNothingFloods(t *testing.T) {
	s := newFarm(t)
	for _, node := range s.nodes {
		s.bad[node] = true
	}
	s.classes = []factory.Class{class(8000, 1, task.GiB)}
	s.run(6 * time.Hour)
	if len(s.jobs) > 80 {
		t.Errorf("%d jobs died in 6 hours", len(s.jobs))
	}
	if out := s.f.Status(s.now).Excluded; len(out) > 5 {
		t.Errorf("left out: %v", out)
	}
}
