package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func call(args ...string) (string, error) {
	var out strings.Builder
	command := newCommand(&out, io.Discard)
	command.SetArgs(args)
	command.SetOut(io.Discard)
	err := command.Execute()
	return out.String(), err
}

func TestPapersWritesFiguresChartsAndTables(t *testing.T) {
	out := t.TempDir()
	table, err := call("003", "--seeds", "2", "--out", out)
	if err != nil || !strings.Contains(table, "0, 1, 2, 3") {
		t.Fatalf("%v\n%s", err, table)
	}
	for _, name := range []string{"report.html", "findings.csv", "fig4.csv", "fig4.svg", "fig4.png", "fig4-alpha5.csv", "fig4-alpha5.svg", "starts.csv"} {
		if info, err := os.Stat(filepath.Join(out, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatCannotBeRunIsRefused(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	for line, want := range map[string]string{
		"003 --seeds -1": "--seeds", "003 --seeds 5000": "--seeds", "005": "unknown command", "003 --part 2": "--part",
		"001 --part 9": "--part", "004": "folder", "004 --out x --pilotage " + none: "make build", "004 --out x --protocol theirs": "theirs",
		"light coadd": "coadd6000", "light coadd6000 --policy best": "workqueue", "light coadd6000 --workers 0": "--workers",
	} {
		if _, err := call(strings.Fields(line)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}

func TestLightPlaysABag(t *testing.T) {
	table, err := call("light", "coadd6000", "--policy", "overlap,workqueue")
	again, _ := call("light", "coadd6000", "--policy", "overlap,workqueue")
	if err != nil || table != again || !strings.Contains(table, "overlap  ") || !strings.Contains(table, "workqueue  ") {
		t.Errorf("%v\n%s%s", err, table, again)
	}
}
