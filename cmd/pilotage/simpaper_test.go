package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSimPaperWritesFiguresChartsAndTables(t *testing.T) {
	out := t.TempDir()
	table, err := call(t, "sim", "paper", "003", "--seeds", "2", "--out", out)
	if err != nil || !strings.Contains(table, "0, 1, 2, 3") {
		t.Fatalf("%v\n%s", err, table)
	}
	for _, name := range []string{"report.html", "findings.csv", "fig4.csv", "fig4.svg", "fig4.png", "fig4-alpha5.csv", "fig4-alpha5.svg", "starts.csv"} {
		if info, err := os.Stat(filepath.Join(out, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, wrong := range [][]string{{"003", "--seeds", "-1"}, {"003", "--seeds", "5000"}, {"004x"}, {"003", "--part", "2"}, {"000", "--topologies", "3"}} {
		if _, err := call(t, append([]string{"sim", "paper"}, wrong...)...); exitCode(t.Context(), err) != exitUsage {
			t.Errorf("sim paper %s: %v", strings.Join(wrong, " "), err)
		}
	}
}
