package integration

import (
	"slices"
	"strings"
	"testing"
)

// Tasks that need a GPU run where one is free, each with devices of its own;
// others see none, and what no pilot has is explained.
func TestTasksGetGPUsOfTheirOwn(t *testing.T) {
	t.Parallel()
	g := newGrid(t, "siteA")
	g.startPilot("siteA", "--slots", "3", "--gpus", "0,GPU-7")
	g.startPilot("siteA", "--slots", "3", "--gpus", "none")
	for _, p := range g.pilots {
		p.awaitReady(t)
	}
	met := g.outside()
	// Two at a time, and both are there before either goes on.
	id := g.submitted("devices", `
defaults: {memory: 16MiB, disk: 16MiB}
tasks:
  uses:
    foreach: {n: "{0..1}"}
    gpus: 1
    outputs: ["uses.{n}"]
    shell: echo "$CUDA_VISIBLE_DEVICES" > uses.{n}; touch `+met+`/{n}; until [ $(ls `+met+` | wc -l) = 2 ]; do sleep 0.1; done
  both: {gpus: 2, inputs: ["uses.{0..1}"], outputs: [both], shell: echo "$ROCR_VISIBLE_DEVICES" > both}
  none: {outputs: [none], inputs: [both], shell: 'echo "${CUDA_VISIBLE_DEVICES-}" > none'}
outputs: ["uses.{0..1}", both, none]
`)
	g.done(id)
	used := []string{g.output(id, "uses.0"), g.output(id, "uses.1")}
	slices.Sort(used)
	if used[0] != "0\n" || used[1] != "GPU-7\n" {
		t.Errorf("two tasks of one GPU each were given %q", used)
	}
	both := strings.Split(strings.TrimSpace(g.output(id, "both")), ",")
	slices.Sort(both)
	if !slices.Equal(both, []string{"0", "GPU-7"}) {
		t.Errorf("a task of two GPUs was given %q", both)
	}
	if none := g.output(id, "none"); none != "\n" {
		t.Errorf("a task of no GPU was given %q", none)
	}
	stdout := g.must("submit", "--gpus", "3", "--parsable", "--", "true")
	waits := strings.TrimSpace(stdout) + "/true"
	observe(g, "why a task of three GPUs waits", func() (string, bool) {
		explained := g.must("task", "explain", waits)
		return explained, strings.Contains(explained, "gpus 3 <= pilot's 2") && strings.Contains(explained, "gpus 3 <= pilot's 0")
	})
	wantText(t, "pilot show", g.must("pilot", "show", g.pilots[0].id), "2 gpus")
}
