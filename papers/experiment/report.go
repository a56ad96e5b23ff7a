package experiment

import (
	"math"

	"github.com/pilotage-grid/pilotage/sim/chart"
)

// Finding sets a claim of a paper beside what came out here.
type Finding struct {
	Claim string
	Paper string
	Ours  string
	Same  Verdict
}

// Report is everything that an experiment gives.
type Report struct {
	Paper    string // its number
	Title    string
	Choices  []string // what the paper does not give, and what was taken
	Findings []Finding
	Figures  []*chart.Figure
	Tables   []*chart.Table
	Gantt    []*chart.Gantt
}

// Page makes a report that can be read in a browser.
func (r *Report) Page() *chart.Page {
	return &chart.Page{Title: r.Title, Lead: r.Choices, Findings: *r.Summary(), Figures: r.Figures, Tables: r.Tables, Gantt: r.Gantt}
}

// Summary is the table of claims.
func (r *Report) Summary() *chart.Table {
	t := &chart.Table{Name: "findings", Title: "Claims and findings", Header: []string{"claim", "paper", "here", "same"}}
	for _, f := range r.Findings {
		t.Rows = append(t.Rows, []string{f.Claim, f.Paper, f.Ours, string(f.Same)})
	}
	return t
}

// MeanOf gives the mean of values and the standard deviation of that mean.
func MeanOf(values []float64) (mean, spread float64) {
	for _, v := range values {
		mean += v / float64(len(values))
	}
	if len(values) < 2 {
		return mean, 0
	}
	for _, v := range values {
		spread += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(spread / float64(len(values)-1) / float64(len(values)))
}
