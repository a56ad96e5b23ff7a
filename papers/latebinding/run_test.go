package latebinding

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pilotage-grid/pilotage/bench"
	"github.com/pilotage-grid/pilotage/papers/experiment"
	"github.com/pilotage-grid/pilotage/sim/chart"
)

// keepRuns writes what an earlier bench would have left, as result says.
func keepRuns(t *testing.T, p Paper, result func(trial) record) {
	t.Helper()
	if err := os.MkdirAll(p.runs(), 0o700); err != nil {
		t.Fatal(err)
	}
	err := p.each(func(o trial) error {
		run := result(o)
		run.Protocol, run.Trace = o.protocol, o.Trace
		if o.Trace != nil {
			o.Trace.Running = []chart.Point{{X: 0, Y: 0}, {X: 1, Y: 60}}
			o.Trace.Messages = []chart.Point{{X: 1, Y: 4000}}
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
		Setup: bench.Setup{Program: "/no/such/program"}, Out: t.TempDir(), Scale: 25, Speed: 198, Seeds: 2, Protocols: []Protocol{AsInPaper, Ours},
		Transport: bench.TransportLight, SingleScale: 25, SingleSpeed: 100,
	}
	hits := map[bench.Pattern]float64{bench.Serial: .95, bench.Splitting: .9, bench.Merging: .7}
	keepRuns(t, p, func(o trial) record {
		run, r := record{}, bench.OverlayResult{OverlayRun: bench.OverlayRun{Pilots: o.Pilots, Tasks: o.Tasks, Workflow: o.Workflow, Seed: o.Seed}}
		r.Cache = bench.CacheFigures{TotalHits: 1, LocalHits: hits[o.Workflow]}
		perTask := 0.0
		switch o.architecture.word {
		case "isolated":
			perTask, r.SlotChange.Mean, r.FirstFill = 12, .025, 600
			r.Cache.TotalHits, r.Cache.LocalHits = .5+.1*float64(o.size), hits[o.Workflow]-.2
		case "centralized":
			perTask, r.SlotChange.Mean, r.Cache.LocalHits = 9, .025, hits[o.Workflow]-.15
		default:
			perTask, r.SlotChange.Mean, r.FirstFill = 5, .1, 10
		}
		r.Makespan = 100
		if o.size == len(sizes)-1 && o.architecture.word != "distributed" {
			r.SlotChange.Mean, r.Makespan = .5, 200
		}
		run.PaperRequests, run.Result = perTask*float64(r.Tasks)+float64(o.Seed), r
		return run
	})
	report, err := p.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Findings) < 15 {
		t.Errorf("%d findings", len(report.Findings))
	}
	for _, f := range report.Findings {
		if fitted := strings.Contains(f.Claim, "pre-DHT (isolated) (Fig. 2)") || strings.Contains(f.Claim, "centralized (Fig. 2)"); f.Same == experiment.No || fitted != (f.Same == experiment.Fitted) {
			t.Errorf("%s: %s, here %s: %s", f.Claim, f.Paper, f.Ours, f.Same)
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
		Setup: bench.Setup{Program: "/no/such/program", Folder: t.TempDir()}, Out: t.TempDir(), Scale: 25, Speed: 198, Seeds: 1,
		Protocols: []Protocol{AsInPaper}, Transport: bench.TransportLight, SingleSpeed: 1,
	}
	keepRuns(t, p, func(trial) record { return record{} })
	gone := p.fileOf(p.trial(AsInPaper, architectures[centralized], 2, bench.Splitting, 1))
	if err := os.Remove(filepath.Join(p.runs(), gone)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Run(context.Background()); err == nil || !strings.Contains(err.Error(), gone) {
		t.Errorf("the run that is missing: %v", err)
	}
}

func TestPaperValidate(t *testing.T) {
	good := Paper{Transport: bench.TransportLight, Out: "x", Scale: 5, Speed: 100, Seeds: 3, Protocols: []Protocol{Ours}, SingleSpeed: 20}
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
