package experiment_test

import (
	"os"
	"strings"
	"testing"

	"github.com/pilotage-grid/pilotage/papers/experiment"
	"github.com/pilotage-grid/pilotage/task/workflow/trace"
	"github.com/pilotage-grid/pilotage/task/workflow/wfformat"
)

// Each recorded workflow is played on each shape of sites by each rival, and the claims
// count what the table has.
func TestRecordedWorkflowsArePlayed(t *testing.T) {
	recording, err := os.ReadFile("../../task/workflow/wfformat/testdata/chain.json")
	if err != nil {
		t.Fatal(err)
	}
	chain, err := wfformat.Read("chain.json", recording)
	if err != nil {
		t.Fatal(err)
	}
	report, err := experiment.RunRecorded(experiment.Options{Seeds: 1}, []*trace.Workload{chain, chain})
	if err != nil {
		t.Fatal(err)
	}
	table := report.Tables[0]
	if len(table.Rows) != 2*3 || len(report.Findings) != 3+8+1 {
		t.Fatalf("%d rows, %d findings", len(table.Rows), len(report.Findings))
	}
	for _, row := range table.Rows {
		if len(row) != len(table.Header) {
			t.Errorf("%d columns of %d: %v", len(row), len(table.Header), row)
		}
		for _, cell := range row[2:] {
			if strings.HasPrefix(cell, "0.0,") {
				t.Errorf("a run of no time: %v", row)
			}
		}
	}
	for _, f := range report.Findings[:3] { // a chain has nobody to wait for
		if !strings.HasPrefix(f.Ours, "1.000; 1.000 at the most, of 2") {
			t.Errorf("%s: %s", f.Claim, f.Ours)
		}
	}
}
