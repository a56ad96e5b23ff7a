package experiment

import (
	"fmt"
	"slices"

	"github.com/pilotage-grid/pilotage/papers/cluster"
	"github.com/pilotage-grid/pilotage/papers/worksites"
	"github.com/pilotage-grid/pilotage/sim/chart"
)

// contest is a workload of a paper, played by the policies of the papers and by
// ours.
type contest struct {
	name   string
	draws  int // unless the options say otherwise
	papers []scheduling
	config func(seed uint64) cluster.Config
}

// ours are greedy, which is the default, and exact, both by locality, on nodes
// that keep what they read, as pilots do. The first is judged.
var (
	oursGreedy = scheduling{name: "ours: greedy, locality", solver: "greedy", rank: "locality", keeps: true}
	oursExact  = scheduling{name: "ours: exact, locality", solver: "exact", rank: "locality", keeps: true}
	// oursGfarm has no copies, for the part that caches have in it.
	oursGfarm = scheduling{name: "greedy, locality, reading makes no copy", solver: "greedy", rank: "locality"}
	ours      = []scheduling{oursGreedy, oursExact, oursGfarm}
)

// entry is what a policy did on a workload: means, with the standard deviation
// of the mean.
type entry struct {
	name     string
	ours     bool
	seconds  [2]float64 // makespan
	response [2]float64 // mean of the tasks', in seconds; 0 where it is not known
	moved    float64    // over the network, copies included, in GB
	local    float64    // tasks that read nothing over the network, percent; known where the response is
}

func entryOf(name string, isOurs bool, runs sample) entry {
	e := entry{name: name, ours: isOurs}
	e.seconds[0], e.seconds[1] = runs.mean(seconds)
	e.response[0], e.response[1] = runs.mean(meanResponse)
	e.moved = runs.average(func(r *cluster.Result) float64 { return (r.RemoteBytes + r.CopiedBytes) / 1e9 })
	e.local = runs.average(func(r *cluster.Result) float64 { return 100 * float64(r.Local()) / float64(len(r.Tasks)) })
	return e
}

func meanResponse(r *cluster.Result) float64 {
	sum := 0.0
	for i := range r.Tasks {
		t := &r.Tasks[i]
		sum += (t.Ended - t.Started + t.Waited).Seconds()
	}
	return sum / float64(len(r.Tasks))
}

// contests lists the workloads of 000, 002 and 003. The mix is calibrated
// already.
func contests(calibrated blast) []contest {
	alphas := []scheduling{best}
	for _, a := range alphas003 {
		alphas = append(alphas, best.with(fmt.Sprintf("alpha(%d)", a.alpha)).named(fmt.Sprintf("DAD with alpha(%d)", a.alpha)))
	}
	return []contest{
		{"readgf (000, Fig. 6)", 30, []scheduling{torque, best}, readgf.config},
		{"BLAST mix (000, Fig. 7)", 30, []scheduling{torque, best, dad(1, 2)}, calibrated.config},
		{"20 files, two copies each (003, Fig. 3)", 30, []scheduling{torque, dad(0.8, 0), best}, twice.config},
		{"40 tasks on one file, entering at once (003, Fig. 4)", 1, alphas, func(uint64) cluster.Config { return sharedFile(startCost, 0) }},
		{"40 tasks on one file, one after the other (003, Fig. 4)", 1, alphas, func(uint64) cluster.Config { return sharedFile(startCost, entered003) }},
		{"hot data set (002)", 5, hotPapers(), hot},
	}
}

// hotPapers are those of 002's schedulers that are not ours.
func hotPapers() (papers []scheduling) {
	for _, s := range hotSchedulings {
		if s.solver != "greedy" {
			papers = append(papers, s)
		}
	}
	return papers
}

// RunOurs plays the workloads of papers 000 to 003 with their own policies
// and with our default, and says who is better.
func RunOurs(options Options) (*Report, error) {
	if options.Seeds == 0 {
		options.Seeds = 30
	}
	calibrated, err := mix.calibrate(options)
	if err != nil {
		return nil, fmt.Errorf("our default: %w", err)
	}
	report := &Report{
		Paper: "ours", Title: "Our default policy beside the papers'",
		Choices: append(choicesOfTestbed(),
			"Ours: every task ranked by the seconds that staging in saves there (locality), nodes keep what they read as pilots' caches do, no task waits for a better node. Greedy is the default solver; exact has the largest sum of ranks.",
			"The best of the papers is the one with the shortest makespan. Better is a shorter makespan by more than 1 %, or one within 1 % and fewer bytes over the network, copies included."),
	}
	table := &chart.Table{
		Name: "policies", Title: "Means, with the standard deviation of the mean",
		Header: []string{"workload", "policy", "makespan (s)", "mean response (s)", "over the network (GB)", "local tasks (%)"},
	}
	judge := func(workload string, entries []entry, err error) error {
		if err != nil {
			return fmt.Errorf("our default: %s: %w", workload, err)
		}
		for i := range entries {
			table.Rows = append(table.Rows, entries[i].row(workload))
		}
		report.Findings = append(report.Findings, verdict(workload, entries))
		return nil
	}
	for _, c := range contests(calibrated) {
		entries, err := c.play(options)
		if err := judge(c.name, entries, err); err != nil {
			return nil, err
		}
	}
	for _, kind := range []bagKind{inSkyOrder, disordered} {
		entries, err := playCoadd(kind, 1, options.Effort)
		if err := judge("Coadd (001), "+kind.String(), entries, err); err != nil {
			return nil, err
		}
	}
	report.Tables = []*chart.Table{table}
	return report, nil
}

func (c *contest) play(options Options) (entries []entry, err error) {
	options.Seeds = min(options.Seeds, c.draws)
	for i, s := range append(slices.Clone(c.papers), ours...) {
		runs, err := options.play(s, c.config)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entryOf(s.name, i >= len(c.papers), runs))
	}
	return entries, nil
}

// playCoadd plays 6,000 tasks at the defaults of 001's table 1, on the first of
// its topologies.
func playCoadd(kind bagKind, part int, effort Effort) (entries []entry, err error) {
	l := newLab001(Options001{Part: part, Topologies: 1, Effort: effort})
	policies := append([]string{"workqueue", oursOfGrid}, policies001...)
	l.want(defaults001(), kind, policies...)
	if err := l.run(); err != nil {
		return nil, err
	}
	for _, policy := range policies {
		e := entry{name: policy, ours: policy == oursOfGrid}
		e.seconds[0], _ = l.mean(defaults001(), kind, policy, func(r *worksites.Result) float64 { return r.Makespan.Seconds() })
		e.moved, _ = l.mean(defaults001(), kind, policy, func(r *worksites.Result) float64 { return float64(r.Bytes) / 1e9 })
		entries = append(entries, e)
	}
	return entries, nil
}

// oursOfGrid is our rank on 001's grid, whose schedulers answer one request at a
// time, so that there is nothing to be solved.
const oursOfGrid = "locality"

func (e *entry) row(workload string) []string {
	response, local := "-", "-"
	if e.response[0] > 0 {
		response, local = withSpread(e.response[0], e.response[1]), fmt.Sprintf("%.0f", e.local)
	}
	return []string{workload, e.name, withSpread(e.seconds[0], e.seconds[1]), response, fmt.Sprintf("%.1f", e.moved), local}
}

// verdict sets our default beside the best of the papers.
func verdict(workload string, entries []entry) Finding {
	var mine, theirs *entry
	for i := range entries {
		switch e := &entries[i]; {
		case e.ours && mine == nil:
			mine = e
		case !e.ours && (theirs == nil || e.seconds[0] < theirs.seconds[0]):
			theirs = e
		}
	}
	ratio := mine.seconds[0] / theirs.seconds[0]
	describe := func(e *entry) string {
		return fmt.Sprintf("%s: %.2f s, %.1f GB", e.name, e.seconds[0], e.moved)
	}
	return Finding{
		Claim: workload + ": our default beats the papers' best", Paper: describe(theirs), Ours: fmt.Sprintf("%s (%.2f of its makespan)", describe(mine), ratio),
		Same: If(ratio < 0.99 || ratio < 1.01 && mine.moved < theirs.moved),
	}
}
