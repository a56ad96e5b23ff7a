package integration

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The journal of a live master, of a site of eight pilots with different
// caches of which one is killed, gives the same assignments when it is played
// again, and others with other settings.
func TestReplayOfALiveMaster(t *testing.T) {
	t.Parallel()
	g := newGrid(t, "siteA")
	journal := filepath.Join(g.dir, "siteA.journal")
	g.addPilot("siteA", "--journal", journal)
	for range 7 {
		g.startPilot("siteA")
	}
	for _, p := range g.pilots[1:] {
		p.awaitReady(t)
	}
	text := strings.Builder{}
	text.WriteString("tasks:\n")
	for i := range 8 {
		fmt.Fprintf(&text, "  make%d: {shell: \"sleep 0.2; echo %d > f%d\", outputs: [f%d]}\n", i, i, i, i)
	}
	for i := range 200 {
		fmt.Fprintf(&text, "  use%d: {shell: \"sleep 0.0%d; cat f%d > u%d\", inputs: [f%d], outputs: [u%d]}\n", i, 3+i%5, i%8, i, i%8, i)
	}
	id := g.submitted("replay", text.String())
	victim := g.runningAt(id, func(p *pilotProcess) bool { return p != g.pilots[0] })
	victim.pilot.kill()
	g.done(id)
	g.pilots[0].terminate(t, 30*time.Second)

	var again, other struct {
		Steps    int `json:"steps"`
		Recorded int `json:"recorded_assignments"`
		Replayed int `json:"replayed_assignments"`
		Same     int `json:"same_assignments"`
		Changed  int `json:"tasks_given_to_others"`
	}
	g.read(&again, "sim", "replay", journal)
	if again.Recorded < 208 || again.Replayed != again.Recorded || again.Same != again.Recorded || again.Changed != 0 {
		t.Errorf("played again: %+v", again)
	}
	g.read(&other, "sim", "replay", journal, "--prefill", "5")
	if other.Recorded != again.Recorded || other.Changed == 0 {
		t.Errorf("with other settings: %+v", other)
	}
	g.read(&other, "sim", "replay", journal, "--solver", "choose(3)")
	if other.Recorded != again.Recorded || other.Changed == 0 {
		t.Errorf("with another solver: %+v", other)
	}
	t.Logf("%d assignments in %d steps; %d tasks elsewhere with other settings", again.Recorded, again.Steps, other.Changed)
	var forecast []struct {
		Makespan float64 `json:"makespan_seconds"`
		Hits     float64 `json:"hit_ratio"`
	}
	g.read(&forecast, "sim", "run", journal, "--site", "siteB,nodes=2", "--policy", "locality,rest")
	if len(forecast) != 2 || forecast[0].Makespan < 0.2 || forecast[0].Hits == 0 {
		t.Errorf("what the site has run, played on another one: %+v", forecast)
	}
	if _, stderr, code := g.run("pilot", "--access", g.access("pilot-siteA"), "--cache", t.TempDir(), "--journal", journal); code != 8 || !strings.Contains(stderr, "there already") {
		t.Errorf("a journal that is there: exit %d, %s", code, stderr)
	}
}
