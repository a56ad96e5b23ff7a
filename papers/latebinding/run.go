package latebinding

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/pilotage-grid/pilotage/bench"
	"github.com/pilotage-grid/pilotage/papers/experiment"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
)

// Protocol is which messages pilots send to the queue.
type Protocol string

// The protocols.
const (
	Ours      Protocol = "ours"
	AsInPaper Protocol = "paper" // what 004 names as well, in rounds as there
)

// Paper says how much of the experiments of 004 (section IV) is run.
type Paper struct {
	bench.Setup
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
	Transport bench.Transport
	// SingleScale and SingleSpeed are those of the single runs of figures 5
	// and 6; a scale of 0 leaves them out.
	SingleScale int
	SingleSpeed float64
}

// sizes are the paper's testbeds: pilots and tasks.
var sizes = [][2]int{{100, 300}, {500, 1500}, {1500, 5000}, {1500, 10_000}}

// architecture is one of the three that 004 compares.
type architecture struct {
	name string
	word string // the mode of its sites, as users write it
	mode pb.SiteMode
}

// Their places in architectures.
const (
	preDHT = iota
	centralized
	distributed
)

var architectures = []architecture{
	{"pre-DHT (isolated)", "isolated", pb.SiteMode_SITE_MODE_ISOLATED},
	{"centralized", "centralized", pb.SiteMode_SITE_MODE_CENTRALIZED},
	{"distributed", "distributed", pb.SiteMode_SITE_MODE_DISTRIBUTED},
}

// trial is one run of the experiment.
type trial struct {
	bench.Overlay
	protocol     Protocol
	architecture architecture
	size         int // its place in sizes
}

// record is what came of a run.
type record struct {
	Protocol Protocol `json:"protocol"`
	// PaperRequests are those that 004's system would have made: its messages, which
	// were sent, registrations and leaves, and the master's calls, which are as many
	// in both. Empty are the calls that were sent only to imitate it: the result's
	// requests hold them as well.
	PaperRequests float64           `json:"paper_requests_total,omitempty"`
	Empty         map[string]uint64 `json:"empty_calls_by_message,omitempty"`

	Result bench.OverlayResult `json:"result"`
	Trace  *bench.Trace        `json:"trace,omitempty"`
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
		if protocol != Ours && protocol != AsInPaper {
			return fmt.Errorf("protocol %q: there are paper and ours", protocol)
		}
		if err := p.trial(protocol, architectures[preDHT], 0, bench.Serial, 1).Validate(); err != nil {
			return err
		}
	}
	return nil
}

// size is a testbed of the paper as it is run.
func (p Paper) size(i int) [2]int {
	return [2]int{sizes[i][0] / p.Scale, sizes[i][1] / p.Scale}
}

// trial is one run of the grid.
func (p Paper) trial(protocol Protocol, a architecture, size int, workflow bench.Pattern, seed int) trial {
	o := bench.Overlay{
		Setup: p.Setup, Pilots: p.size(size)[0], Sites: 2, Tasks: p.size(size)[1], Workflow: workflow, Mode: a.mode, Transport: p.Transport,
		TaskTime: time.Duration(float64(taskTime) / p.Speed), Prefill: 1, Seed: uint64(seed),
		FileSize: task.Bytes(max(1, float64(task.MiB)/p.Speed)),
	}
	if protocol == AsInPaper {
		o.Prefill, o.RoundPeriod = 0, scaled(roundPeriod, o.TaskTime)
	}
	return trial{o, protocol, a, size}
}

// single is the run of figure 5 or 6: "one serial-chain workflow of 10,000
// jobs and 1,500 pilots".
func (p Paper) single(a architecture) trial {
	p.Scale, p.Speed = p.SingleScale, p.SingleSpeed
	one := p.trial(AsInPaper, a, len(sizes)-1, bench.Serial, 1)
	one.Trace = &bench.Trace{}
	return one
}

// Run carries out what is not yet there and draws the figures.
func (p Paper) Run(ctx context.Context) (*experiment.Report, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(p.runs(), 0o755); err != nil {
		return nil, err
	}
	l := &lab{Paper: p, traces: make(map[string]*record)}
	err := p.each(func(one trial) error {
		run, err := p.once(ctx, one)
		switch {
		case err != nil:
			return err
		case one.Trace != nil:
			l.traces[one.architecture.name] = run
		default:
			l.runs = append(l.runs, &labRun{record: run, size: one.size, architecture: one.architecture.name})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return l.report(), nil
}

// each lists the runs. A testbed as a whole comes before the next larger one.
func (p Paper) each(do func(trial) error) error {
	for size := range sizes {
		for seed := 1; seed <= p.Seeds; seed++ {
			for _, protocol := range p.Protocols {
				for _, workflow := range []bench.Pattern{bench.Serial, bench.Splitting, bench.Merging} {
					for _, a := range architectures {
						if err := do(p.trial(protocol, a, size, workflow, seed)); err != nil {
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
		if err := do(p.single(a)); err != nil {
			return err
		}
	}
	return nil
}

func (p Paper) runs() string { return filepath.Join(p.Out, "runs") }

// fileOf names the file of a run by all that tells it from others.
func (p Paper) fileOf(o trial) string {
	name := fmt.Sprintf("%s-%s-%dx%d-%s-%s-%s-%d.json",
		o.protocol, o.architecture.word, o.Pilots, o.Tasks, o.Workflow, o.TaskTime.Round(time.Millisecond), o.Transport, o.Seed)
	if o.Trace != nil {
		name = "single-" + name
	}
	return name
}

// once carries out a run, unless that was done before.
func (p Paper) once(ctx context.Context, o trial) (*record, error) {
	name := p.fileOf(o)
	path := filepath.Join(p.runs(), name)
	run := &record{}
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
	if p.Progress != nil {
		p.Progress("%s", name)
	}
	if run, err = o.run(ctx); err != nil {
		return nil, fmt.Errorf("run %s: %w", name, err)
	}
	if text, err = json.MarshalIndent(run, "", " "); err != nil {
		return nil, err
	}
	if err := os.WriteFile(path+".part", append(text, '\n'), 0o644); err != nil {
		return nil, err
	}
	return run, os.Rename(path+".part", path)
}

// run carries out a run.
func (o trial) run(ctx context.Context) (*record, error) {
	run, all := &record{Protocol: o.protocol, Trace: o.Trace}, &talk{mode: o.Mode, heartbeat: scaled(heartbeats, o.TaskTime)}
	if o.protocol == AsInPaper {
		o.Extra = all
	}
	var err error
	if run.Result, err = o.Run(ctx); err != nil {
		return nil, err
	}
	run.Result.Folder = "" // which is gone
	if o.protocol == AsInPaper {
		sent, _ := all.Sent()
		methods := run.Result.RequestsByMethod
		run.PaperRequests = sent + methods["Register"] + methods["Leave"] + methods["Sync"] + methods["ClaimMastership"]
		run.Empty = all.byMessage()
	}
	return run, all.err()
}

// ownPerTask are the requests of a task that the product itself made.
func (r *record) ownPerTask() float64 {
	own := r.Result.Requests
	for _, sent := range r.Empty {
		own -= float64(sent)
	}
	return own / float64(r.Result.Tasks)
}

// servedPerTask are all requests of a task that the queue served.
func (r *record) servedPerTask() float64 { return r.Result.Requests / float64(r.Result.Tasks) }

func (r *record) paperPerTask() float64 { return r.PaperRequests / float64(r.Result.Tasks) }
