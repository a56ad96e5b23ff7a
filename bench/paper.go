package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/sim/paper"
)

// Paper says how much of the experiments of 004 (section IV) is run.
type Paper struct {
	Setup
	// Out is the folder in which every run is kept: one that is there is not
	// run again.
	Out string
	// Scale divides the paper's pilots and tasks, Speed its times.
	Scale int
	Speed float64
	// Seeds is how many runs each workflow type gets; the paper has three.
	Seeds int
	// Protocols of the grid: AsInPaper is figures 2 to 4, 7 and 8 with the paper's
	// period of rounds, its messages, and no task given early; Ours the same
	// figures with what is usual here.
	Protocols []Protocol
	Transport Transport
	// SingleScale and SingleSpeed are those of the single runs of figures 5
	// and 6; a scale of 0 leaves them out.
	SingleScale int
	SingleSpeed float64
}

// paperSizes are the paper's testbeds: pilots and tasks.
var paperSizes = [][2]int{{100, 300}, {500, 1500}, {1500, 5000}, {1500, 10_000}}

// architecture is one of the three that 004 compares.
type architecture struct {
	name string
	mode pb.SiteMode
}

// Their places in architectures.
const (
	preDHT = iota
	centralized
	distributed
)

var architectures = []architecture{
	{"pre-DHT (isolated)", pb.SiteMode_SITE_MODE_ISOLATED},
	{"centralized", pb.SiteMode_SITE_MODE_CENTRALIZED},
	{"distributed", pb.SiteMode_SITE_MODE_DISTRIBUTED},
}

// paperRun is one run and what came of it.
type paperRun struct {
	Result OverlayResult `json:"result"`
	Trace  *trace        `json:"trace,omitempty"`
}

// Validate tells what of the values makes no sense.
func (p Paper) Validate() error {
	switch {
	case p.Out == "":
		return errors.New("a folder for runs and figures is needed")
	case p.Scale < 1 || p.Scale > 25 || p.SingleScale < 0 || p.SingleScale > 25:
		return errors.New("scales are 1 to 25; a single scale of 0 leaves out figures 5 and 6")
	case p.Speed < 1 || p.Speed > 1000 || p.SingleSpeed < 1 || p.SingleSpeed > 1000:
		return errors.New("speeds are 1 to 1000")
	case p.Seeds < 1 || len(p.Protocols) == 0:
		return errors.New("at least one seed and one protocol are needed")
	}
	for _, protocol := range p.Protocols {
		if err := p.overlay(protocol, architectures[preDHT], p.size(0), Serial, 1).Validate(); err != nil {
			return err
		}
	}
	return nil
}

// size is a testbed of the paper as it is run.
func (p Paper) size(i int) [2]int {
	return [2]int{paperSizes[i][0] / p.Scale, paperSizes[i][1] / p.Scale}
}

// overlay is one run of the grid.
func (p Paper) overlay(protocol Protocol, a architecture, size [2]int, workflow Pattern, seed int) Overlay {
	o := Overlay{
		Setup: p.Setup, Pilots: size[0], Sites: 2, Tasks: size[1], Workflow: workflow, Mode: a.mode, Transport: p.Transport,
		TaskTime: time.Duration(float64(paperTaskTime) / p.Speed), Payload: Sleep, Protocol: protocol, Prefill: 1, Seed: uint64(seed),
	}
	if protocol == AsInPaper {
		o.Prefill, o.RoundPeriod = 0, PaperRounds(o.TaskTime)
	}
	return o
}

// single is the run of figure 5 or 6: "one serial-chain workflow of 10,000
// jobs and 1,500 pilots".
func (p Paper) single(a architecture) Overlay {
	p.Scale, p.Speed = p.SingleScale, p.SingleSpeed
	o := p.overlay(AsInPaper, a, p.size(len(paperSizes)-1), Serial, 1)
	o.trace = &trace{}
	return o
}

// Run carries out what is not yet there and draws the figures.
func (p Paper) Run(ctx context.Context) (*paper.Report, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(p.runs(), 0o755); err != nil {
		return nil, err
	}
	l := &lab004{Paper: p, traces: make(map[string]*paperRun)}
	err := p.each(func(o Overlay, size int, a architecture) error {
		run, err := p.once(ctx, o)
		switch {
		case err != nil:
			return err
		case o.trace != nil:
			l.traces[a.name] = run
		default:
			l.runs = append(l.runs, &labRun{paperRun: run, size: size, architecture: a.name})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return l.report(), nil
}

// each lists the runs. A testbed as a whole comes before the next larger one.
func (p Paper) each(do func(o Overlay, size int, a architecture) error) error {
	for size := range paperSizes {
		for seed := 1; seed <= p.Seeds; seed++ {
			for _, protocol := range p.Protocols {
				for _, workflow := range []Pattern{Serial, Splitting, Merging} {
					for _, a := range architectures {
						if err := do(p.overlay(protocol, a, p.size(size), workflow, seed), size, a); err != nil {
							return err
						}
					}
				}
			}
		}
	}
	if p.SingleScale == 0 {
		return nil
	}
	for _, a := range []architecture{architectures[preDHT], architectures[distributed]} {
		if err := do(p.single(a), len(paperSizes)-1, a); err != nil {
			return err
		}
	}
	return nil
}

func (p Paper) runs() string { return filepath.Join(p.Out, "runs") }

// fileOf names the file of a run by all that tells it from others.
func (p Paper) fileOf(o Overlay) string {
	name := fmt.Sprintf("%s-%s-%dx%d-%s-%s-%s-%d.json",
		o.Protocol, modeName(o.Mode), o.Pilots, o.Tasks, o.Workflow, o.TaskTime.Round(time.Millisecond), o.Transport, o.Seed)
	if o.trace != nil {
		name = "single-" + name
	}
	return name
}

// once carries out a run, unless that was done before.
func (p Paper) once(ctx context.Context, o Overlay) (*paperRun, error) {
	name := p.fileOf(o)
	path := filepath.Join(p.runs(), name)
	run := &paperRun{}
	text, err := os.ReadFile(path)
	switch {
	case err == nil:
		if err := json.Unmarshal(text, run); err != nil {
			return nil, fmt.Errorf("an earlier run: %w; remove %s", err, path)
		}
		return run, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("an earlier run: %w", err)
	}
	p.say("%s", name)
	if run.Result, err = o.Run(ctx); err != nil {
		return nil, fmt.Errorf("run %s: %w", name, err)
	}
	run.Trace, run.Result.Folder = o.trace, "" // which is gone
	if text, err = json.MarshalIndent(run, "", " "); err != nil {
		return nil, err
	}
	if err := os.WriteFile(path+".part", append(text, '\n'), 0o644); err != nil {
		return nil, err
	}
	return run, os.Rename(path+".part", path)
}
