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
	for _, f := range report.Figures {
		for _, s := range f.Series {
			if len(s.Points) == 0 {
				t.Errorf("%s: no points of %s", f.Name, s.Name)
			}
		}
	}
}
