package paper

import "testing"

// TestManySites pins the claims about 004 at a small size; the seed is fixed.
func TestManySites(t *testing.T) {
	options := Options004{Sites: 5, Pilots: 100, Tasks: 1_500}
	report, err := Run004(options)
	if err != nil {
		t.Fatal(err)
	}
	hold(t, report.Findings, true, "all slots run")
	hold(t, report.Findings, false, "queue requests per task", "delay does not depend")
	if len(report.Figures) != 5 || len(report.Tables) != 1 {
		t.Errorf("%d figures, %d tables", len(report.Figures), len(report.Tables))
	}
	options.Setting = "events"
	alone, err := Run004(options)
	if err != nil {
		t.Fatal(err)
	}
	for i, row := range alone.Tables[0].Rows {
		if both := report.Tables[0].Rows[i]; len(row) != 2 || row[1] != both[2] {
			t.Errorf("%s: alone %v, with the other setting %v", row[0], row[1:], both[1:])
		}
	}
	options.Setting = "none"
	if _, err := Run004(options); err == nil {
		t.Error("a setting that does not exist is played")
	}
	for _, f := range report.Figures {
		for _, s := range f.Series {
			if len(s.Points) == 0 {
				t.Errorf("%s: no points of %s", f.Name, s.Name)
			}
		}
	}
}
