package integration

import (
	"path/filepath"
	"strings"
	"testing"
)

// A recorded workflow runs as real tasks with files of scaled size; what is
// wrong with a recording is told with the place.
func TestRecordedWorkflowsRunLive(t *testing.T) {
	t.Parallel()
	g := newGrid(t, "siteA")
	g.addPilot("siteA")
	g.addPilot("siteA")
	recordings := "../task/workflow"
	id := strings.TrimSpace(g.must("submit", "--wfformat", recordings+"/wfformat/testdata/chain.json",
		"--time-scale", "0.01", "--size-scale", "2", "--parsable"))
	other := strings.TrimSpace(g.must("submit", "--dax", recordings+"/dax/testdata/chain.xml", "--time-scale", "0.01", "--parsable"))
	g.done(id)
	g.done(other)
	if count := g.output(other, "count.1"); count != "count.1\n" {
		t.Errorf("count.1 holds %q", count)
	}
	attempt := g.task(id + "/join_3").GetAttempts()[0].GetOutcome()
	if produced := attempt.GetOutputs()[0]; produced.GetSizeBytes() != 8 {
		t.Errorf("the sum of 4 bytes, doubled: %v", produced)
	}
	broken := filepath.Join(g.dir, "broken.json")
	writeFile(t, broken, "{\n\"name\" 1}")
	g.rejects([]string{broken + ":2:8: this is no JSON"}, "submit", "--wfformat", broken)
	g.rejects([]string{"the time scale is 0"}, "submit", "--wfformat", recordings+"/wfformat/testdata/chain.json", "--time-scale", "0")
}
