package experiment

import (
	"fmt"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/papers/cluster"
	"github.com/pilotage-grid/pilotage/sim"
	"github.com/pilotage-grid/pilotage/sim/chart"
	"github.com/pilotage-grid/pilotage/task"
)

// The experiment beside 002, which has none of its own: tasks arrive ever
// faster, and half of them read one data set.
const (
	hotNodes   = 16
	hotSets    = 20
	hotSize    = 2e9
	hotRoom    = 4 * hotSize // a node's room for files
	hotCompute = 20 * time.Second
	hotShare   = 0.5
	hotRamp    = 40 * time.Minute
	// The load of the slots, computing alone, grows from the first to the second.
	hotFrom, hotTo = 0.1, 1.1
	hotSession     = 5 * time.Second
	hotWindow      = 5 * time.Minute
)

// hotSchedulings are compared; what 002 does comes first.
var hotSchedulings = []scheduling{
	{name: "plans(60,5); fcfs", replicas: "plans(60,5); fcfs"},
	{name: "fcfs", replicas: "fcfs"},
	best,
	best.with("alpha(4)").named("DAD with alpha(4)"),
	best.with("plans(60,5)").named("plans(60,5), the rest by DAD"),
	byLocality,
	byLocality.with("plans(60,5)").named("plans(60,5), the rest by greedy"),
}

// byLocality is our default solver and rank, here without the caches that make
// copies of what is read.
var byLocality = scheduling{name: "greedy, locality", solver: "greedy", rank: "locality"}

var (
	plans002   = hotSchedulings[0].name
	fcfs002    = hotSchedulings[1].name
	alpha002   = hotSchedulings[3].name
	plansByDAD = hotSchedulings[4].name
)

// hot is one draw of the experiment.
func hot(seed uint64) cluster.Config {
	c := testbed()
	c.Nodes, c.SessionEvery, c.Hardware.Room = hotNodes, hotSession, hotRoom
	for i := range hotSets {
		c.Files = append(c.Files, cluster.File{Size: task.Bytes(hotSize), Holders: []int{i % hotNodes}})
	}
	random := sim.Random(seed, "arrivals")
	for at := time.Duration(0); ; {
		load := hotFrom + (hotTo-hotFrom)*at.Seconds()/hotRamp.Seconds()
		at += time.Duration(random.ExpFloat64() / (load * hotNodes) * float64(hotCompute))
		if at > hotRamp {
			return c
		}
		set := 0
		if random.Float64() > hotShare {
			set = 1 + random.IntN(hotSets-1)
		}
		c.Tasks = append(c.Tasks, cluster.Task{
			Queue: fmt.Sprintf("set %d", set), Files: []int{set}, Enters: at, Compute: time.Duration(2 * random.Float64() * float64(hotCompute)),
		})
	}
}

// lab002 holds the runs.
type lab002 struct {
	Options
	configs []cluster.Config
	runs    map[string]sample
	knobs   []scheduling
}

// Run002 plays a hot data set under growing load.
func Run002(options Options) (*Report, error) {
	if options.Seeds == 0 {
		options.Seeds = 5
	}
	l := newLab002(options)
	for _, knob := range []string{"plans(15,5); fcfs", "plans(30,5); fcfs", "plans(120,5); fcfs", "plans(60,2); fcfs", "plans(60,10); fcfs", "plans(60,5,eliminate); fcfs"} {
		l.knobs = append(l.knobs, scheduling{name: knob, replicas: knob})
	}
	for _, alpha := range []string{"alpha(2)", "alpha(10)"} {
		l.knobs = append(l.knobs, best.with(alpha).named("DAD with "+alpha))
	}
	if err := l.run(append(l.knobs, hotSchedulings...)...); err != nil {
		return nil, err
	}
	return &Report{
		Paper: "002", Title: "Paper 002: plans for data sets", Choices: append(choices002(), choicesOfTestbed()...), Findings: l.findings(),
		Figures: []*chart.Figure{
			l.responses("response", "Response time under growing load", hotSchedulings),
			l.responses("response-copies", "Response time of those that make copies", withCopies()), l.replicas(),
		},
		Tables: []*chart.Table{
			l.table("schedulers", "Schedulers", hotSchedulings),
			l.table("settings", "Settings of 002 and 003", append([]scheduling{hotSchedulings[0]}, l.knobs...)),
		},
	}, nil
}

func newLab002(options Options) *lab002 {
	l := &lab002{Options: options, runs: make(map[string]sample)}
	for seed := range options.Seeds {
		l.configs = append(l.configs, hot(uint64(seed)))
	}
	return l
}

func (l *lab002) run(settings ...scheduling) error {
	for _, s := range settings {
		var err error
		if l.runs[s.name], err = l.play(s, hot); err != nil {
			return fmt.Errorf("paper 002: %w", err)
		}
	}
	return nil
}

func choices002() []string {
	return []string{
		fmt.Sprintf("The paper has no experiment: this one is ours. %d nodes as in 000 with room for %d files each, %d data sets of 2 GB on one node each. For %s tasks of 0 to %s arrive at random, at a rate that grows from %.0f %% to %.0f %% of what the nodes compute; half of them read data set 0, the others one of the rest.",
			hotNodes, int(hotRoom/hotSize), hotSets, hotRamp, 2*hotCompute, 100*hotFrom, 100*hotTo),
		fmt.Sprintf("Scheduling sessions are held every %s for all. plans(60,5): a data set gets a replica when tasks worth more than 60 s wait for it and fit no plan; 5 tasks wait in a plan at most; a plan's replica stays when the plan ends, until its room is needed. What fits no plan runs first come, first served.", hotSession),
		"DAD has beta 0.8, Delay 2 and a queue for each data set. Response is from entering to the end.",
	}
}

// table compares schedulers by means over the seeds.
func (l *lab002) table(name, title string, settings []scheduling) *chart.Table {
	t := &chart.Table{
		Name: name, Title: fmt.Sprintf("%s: means of %d draws of about %d tasks", title, l.Seeds, len(l.configs[0].Tasks)),
		Header: []string{"scheduler", "response (s)", "in the last quarter (s)", "makespan (s)", "local tasks (%)", "read over the network (GB)", "copied (GB)", "replicas dropped"},
	}
	for _, s := range settings {
		runs := l.runs[s.name]
		last := func(r *cluster.Result) float64 { return l.response(r, 3*hotRamp/4, hotRamp) }
		share := func(r *cluster.Result) float64 { return 100 * float64(r.Local()) / float64(len(r.Tasks)) }
		t.Rows = append(t.Rows, []string{
			s.name, withSpread(runs.mean(l.wholeResponse)), withSpread(runs.mean(last)), fmt.Sprintf("%.0f", runs.average(seconds)),
			fmt.Sprintf("%.1f", runs.average(share)), fmt.Sprintf("%.0f", runs.average(remoteGigabytes)), fmt.Sprintf("%.0f", runs.average(copiedGigabytes)),
			fmt.Sprintf("%.1f", runs.average(func(r *cluster.Result) float64 { return float64(len(r.Drops)) })),
		})
	}
	return t
}

func remoteGigabytes(r *cluster.Result) float64 { return r.RemoteBytes / 1e9 }
func copiedGigabytes(r *cluster.Result) float64 { return r.CopiedBytes / 1e9 }

// response is the mean response time of tasks that entered in a window.
func (l *lab002) response(r *cluster.Result, from, to time.Duration) float64 {
	sum, count := time.Duration(0), 0
	for i := range r.Tasks {
		// Tasks begin waiting when they enter.
		entered := r.Tasks[i].Started - r.Tasks[i].Waited
		if entered >= from && entered < to {
			sum += r.Tasks[i].Ended - entered
			count++
		}
	}
	return sum.Seconds() / float64(max(count, 1))
}

func (l *lab002) wholeResponse(r *cluster.Result) float64 { return l.response(r, 0, hotRamp+1) }

// responses draws response times over the growing load.
func (l *lab002) responses(name, title string, settings []scheduling) *chart.Figure {
	f := &chart.Figure{Name: name, Title: title, X: "entered at (min)", Y: "mean response (s)"}
	for _, s := range settings {
		curve := chart.Series{Name: s.name}
		for from := time.Duration(0); from < hotRamp; from += hotWindow {
			mean, spread := l.runs[s.name].mean(func(r *cluster.Result) float64 { return l.response(r, from, from+hotWindow) })
			curve.Points = append(curve.Points, chart.Point{X: (from + hotWindow/2).Minutes(), Y: mean, Spread: spread})
		}
		f.Series = append(f.Series, curve)
	}
	return f
}

// withCopies are the schedulers that make copies.
func withCopies() []scheduling {
	return slices.DeleteFunc(slices.Clone(hotSchedulings), func(s scheduling) bool { return s.replicas == "" || s.replicas == fcfs002 })
}

// replicas draws how many nodes hold the hot data set.
func (l *lab002) replicas() *chart.Figure {
	f := &chart.Figure{Name: "replicas", Title: "Replicas of the hot data set", X: "time (min)", Y: "replicas"}
	for _, s := range withCopies() {
		curve := chart.Series{Name: s.name}
		for at := time.Duration(0); at <= hotRamp; at += 2 * time.Minute {
			mean, spread := l.runs[s.name].mean(func(r *cluster.Result) float64 { return float64(hotReplicas(r, at)) })
			curve.Points = append(curve.Points, chart.Point{X: at.Minutes(), Y: mean, Spread: spread})
		}
		f.Series = append(f.Series, curve)
	}
	return f
}

// hotReplicas is how many nodes hold the hot data set at a moment.
func hotReplicas(r *cluster.Result, at time.Duration) int {
	count := 1
	for _, c := range r.Copies {
		if c.File == 0 && c.Over <= at {
			count++
		}
	}
	for _, d := range r.Drops {
		if d.File == 0 && d.At <= at {
			count--
		}
	}
	return count
}
