package integration

import (
	"encoding/json"
	"strings"
	"testing"
)

// The keys are an interface; the figures of so short a run are not looked at.
func TestBenchNoop(t *testing.T) {
	t.Parallel()
	g := newGrid(t)
	var result map[string]any
	out := g.must("--output", "json", "bench", "noop", "--pilots", "2", "--slots", "2", "--tasks", "40", "--folder", g.dir)
	if err := json.Unmarshal([]byte(out), &result); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, key := range []string{"tasks_per_second", "xargs_tasks_per_second", "ratio_to_xargs", "queue_cpu_seconds", "queue_rss_bytes"} {
		if value, is := result[key].(float64); !is || value < 0 {
			t.Errorf("%s is %v", key, result[key])
		}
	}
	delays, _ := result["inter_task_delay_seconds"].(map[string]any)
	for _, key := range []string{"p50", "p95", "p99", "mean"} {
		if _, is := delays[key].(float64); !is {
			t.Errorf("inter_task_delay_seconds.%s is %v", key, delays[key])
		}
	}
	if result["failed_tasks"] != 0.0 || result["file_system"] == "" {
		t.Errorf("failed %v, file system %v", result["failed_tasks"], result["file_system"])
	}
}

// Every figure of the overlay's bench has its key, no task is lost, and what a
// pilot of the site has made is read from caches.
func TestBenchOverlay(t *testing.T) {
	t.Parallel()
	g := newGrid(t)
	for _, transport := range []string{"light", "tcp", "processes"} {
		var r struct {
			Makespan float64                    `json:"makespan_seconds"`
			Requests map[string]float64         `json:"tq_requests_by_method"`
			Delay    map[string]float64         `json:"inter_task_delay_seconds"`
			Lost     *int                       `json:"lost_tasks"`
			Cache    map[string]float64         `json:"cache"`
			Rounds   map[string]json.RawMessage `json:"rounds"`
			Master   map[string]json.RawMessage `json:"master"`
		}
		out := g.must("--output", "json", "bench", "overlay", "--pilots", "6", "--sites", "1", "--tasks", "30",
			"--workflow", "merging", "--task-seconds", "0.02", "--file-bytes", "64KiB", "--transport", transport, "--folder", g.dir)
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if r.Lost == nil || *r.Lost != 0 || r.Makespan <= 0 || len(r.Delay) != 4 || len(r.Master) != 8 {
			t.Errorf("%s: %s", transport, out)
		}
		if transport == "processes" { // whose masters are not seen from outside
			if r.Rounds != nil || !strings.Contains(out, `"rounds": null`) {
				t.Errorf("%s: rounds %s, which nobody has measured", transport, r.Rounds)
			}
		} else if len(r.Rounds) != 6 {
			t.Errorf("%s: rounds %s", transport, r.Rounds)
		}
		if r.Requests["Register"] != 6 || r.Requests["Leave"] != 6 || r.Requests["Sync"] < 2 {
			t.Errorf("%s: six pilots came, worked and left with these requests: %v", transport, r.Requests)
		}
		if reads := r.Cache["reads_local"] + r.Cache["reads_peer"]; reads != 20 || r.Cache["total_hit_ratio"] != 1 {
			t.Errorf("%s: %v of 20 reads are hits", transport, reads)
		}
	}
}

func TestBenchQueue(t *testing.T) {
	t.Parallel()
	g := newGrid(t)
	var r struct {
		Rate     float64   `json:"submit_tasks_per_second"`
		HandOuts []float64 `json:"hand_out_seconds"`
		Restart  float64   `json:"restart_seconds"`
		Database float64   `json:"database_bytes_per_task"`
	}
	out := g.must("--output", "json", "bench", "queue", "--tasks", "3000", "--sites", "4", "--clients", "2", "--hand-out", "400", "--folder", g.dir)
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if r.Rate <= 0 || len(r.HandOuts) != 3 || r.Restart <= 0 || r.Database <= 0 {
		t.Error(out)
	}
}
