package integration

import (
	"encoding/json"
	"testing"
)

// The keys are an interface; the figures of so short a run are not looked at.
func TestBenchNoop(t *testing.T) {
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
