package bench

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pilotage-grid/pilotage/sim/chart"
)

// keepRuns writes what an earlier bench would have left, as result says.
func keepRuns(t *testing.T, p Paper, result func(o Overlay, size int) OverlayResult) {
	t.Helper()
	if err := os.MkdirAll(p.runs(), 0o700); err != nil {
		t.Fatal(err)
	}
	err := p.each(func(o Overlay, size int, _ architecture) error {
		run := paperRun{Result: result(o, size), Trace: o.trace}
		if o.trace != nil {
			o.trace.Running = []chart.Point{{X: 0, Y: 0}, {X: 1, Y: 60}}
			o.trace.Messages = []chart.Point{{X: 1, Y: 4000}}
		}
		text, err := json.Marshal(run)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(p.runs(), p.fileOf(o)), text, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Runs as 004 found them give its claims, and nothing is run again.
func TestPaperFromKeptRuns(t *testing.T) {
	p := Paper{
		Setup: Setup{Program: "/no/such/program"}, Out: t.TempDir(), Scale: 25, Speed: 198, Seeds: 2, Protocols: []Protocol{AsInPaper, Ours},
		Transport: TransportLight, SingleScale: 25, SingleSpeed: 100,
	}
	hits := map[Pattern]float64{Serial: .95, Splitting: .9, Merging: .4}
	keepRuns(t, p, func(o Overlay, size int) OverlayResult {
		r := OverlayResult{Protocol: o.Protocol, Pilots: o.Pilots, Tasks: o.Tasks, Workflow: o.Workflow, Seed: o.Seed}
		r.Cache = CacheFigures{TotalHits: 1, LocalHits: hits[o.Workflow]}
		switch modeName(o.Mode) {
		case "isolated":
			r.PaperRequestsPerTask, r.SlotChange.Mean, r.FirstFill = 12, .025, 600
			r.Cache.TotalHits, r.Cache.LocalHits = .5+.1*float64(size), hits[o.Workflow]-.2
		case "centralized":
			r.PaperRequestsPerTask, r.SlotChange.Mean, r.Cache.LocalHits = 9, .025, hits[o.Workflow]-.15
		default:
			r.PaperRequestsPerTask, r.SlotChange.Mean, r.FirstFill = 5, .1, 10
		}
		r.Makespan = 100
		if size == len(paperSizes)-1 && modeName(o.Mode) != "distributed" {
			r.SlotChange.Mean, r.Makespan = .5, 200
		}
		r.PaperRequests = r.PaperRequestsPerTask*float64(r.Tasks) + float64(o.Seed)
		return r
	})
	report, err := p.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Findings) < 15 {
		t.Errorf("%d findings", len(report.Findings))
	}
	for _, f := range report.Findings {
		if !f.Same {
			t.Errorf("%s: %s, here %s", f.Claim, f.Paper, f.Ours)
		}
	}
	figures := map[string]*chart.Figure{}
	for _, f := range report.Figures {
		figures[f.Name] = f
	}
	for _, name := range []string{
		"fig2", "fig3", "fig4", "fig5-slots", "fig5-delay", "fig6-slots", "fig6-delay", "fig7", "fig8",
		"fig2-ours", "fig3-ours", "fig4-ours", "fig7-ours", "fig8-ours",
	} {
		if figures[name] == nil {
			t.Errorf("no figure %s", name)
		}
	}
	// Three types at seeds 1 and 2: six runs whose requests differ by one.
	last := figures["fig2"].Series[preDHT].Points[3]
	if want := math.Sqrt(6*.25/5) / math.Sqrt(6); last.X != 400 || math.Abs(last.Y-(12*400+1.5)) > 1e-9 || math.Abs(last.Spread-want) > 1e-9 {
		t.Errorf("figure 2 ends at %+v, want a spread of %v", last, want)
	}
	if s := figures["fig5-slots"].Series[1]; !strings.Contains(s.Name, "by 100") || s.Points[0].Y != 40 {
		t.Errorf("requests beside slots: %+v", s)
	}
	if rows := len(report.Tables[0].Rows); rows != 4*2*2*3*3+2 {
		t.Errorf("%d runs in the table", rows)
	}
}

func TestPaperRunsWhatIsMissing(t *testing.T) {
	p := Paper{
		Setup: Setup{Program: "/no/such/program", Folder: t.TempDir()}, Out: t.TempDir(), Scale: 25, Speed: 198, Seeds: 1,
		Protocols: []Protocol{AsInPaper}, Transport: TransportLight, SingleSpeed: 1,
	}
	keepRuns(t, p, func(o Overlay, _ int) OverlayResult { return OverlayResult{Protocol: o.Protocol} })
	gone := p.fileOf(p.overlay(AsInPaper, architectures[centralized], p.size(2), Splitting, 1))
	if err := os.Remove(filepath.Join(p.runs(), gone)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Run(context.Background()); err == nil || !strings.Contains(err.Error(), gone) {
		t.Errorf("the run that is missing: %v", err)
	}
}

func TestPaperValidate(t *testing.T) {
	good := Paper{Transport: TransportLight, Out: "x", Scale: 5, Speed: 100, Seeds: 3, Protocols: []Protocol{Ours}, SingleSpeed: 20}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Paper){
		"no folder": func(p *Paper) { p.Out = "" }, "no scale": func(p *Paper) { p.Scale = 0 }, "too small": func(p *Paper) { p.Scale = 60 },
		"slower": func(p *Paper) { p.Speed = .5 }, "no seeds": func(p *Paper) { p.Seeds = 0 },
		"protocol": func(p *Paper) { p.Protocols = []Protocol{"theirs"} },
	} {
		p := good
		spoil(&p)
		if p.Validate() == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
