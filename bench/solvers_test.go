package bench

import (
	"context"
	"testing"
)

func TestSolvers(t *testing.T) {
	s := Solvers{ExactPilots: 30, ExactTasks: 60, GreedyPilots: 40, GreedyTasks: 80, Own: 5, Runs: 2, Seed: 7}
	r, err := s.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if r.Exact.P50 <= 0 || r.GreedySame.P50 <= 0 || r.Sequential.P50 <= 0 || r.GreedySparse.P50 <= 0 {
		t.Errorf("times %+v", r)
	}
	if r.GreedyRatio <= 0 || r.GreedyRatio > 1 || r.SequentialRatio <= 0 || r.SequentialRatio > 1 {
		t.Errorf("ratios %v, %v", r.GreedyRatio, r.SequentialRatio)
	}
	again, err := s.Run(context.Background())
	if err != nil || again.GreedyRatio != r.GreedyRatio {
		t.Errorf("the same seed: %v, then %v; %v", r.GreedyRatio, again.GreedyRatio, err)
	}
	s.Own = 61
	if _, err := s.Run(context.Background()); err == nil {
		t.Error("more ranks than tasks are accepted")
	}
}
