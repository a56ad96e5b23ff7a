package experiment

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/sim/chart"
	"github.com/pilotage-grid/pilotage/sim/grid"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/workflow/trace"
)

// rival is how the sites of a recorded workflow decide.
type rival struct {
	name         string
	rank, solver string
	wait         time.Duration // locality wait; 0 is the default, negative none
}

// rivals of recorded workflows: our default first, then it without waiting, which the
// others are held against as well. None of the papers' policies waits, but for the
// delay rule's passes.
var rivals = []rival{
	{name: "default", rank: "locality"},
	{name: "no waiting", rank: "locality", wait: -1},
	{name: "rest", rank: "rest", wait: -1},
	{name: "combined", rank: "combined", wait: -1},
	{name: "rest.2", rank: "rest", solver: "choose(2)", wait: -1},
	{name: "overlap", rank: "overlap", wait: -1},
	{name: "DAD, beta 0.8, Delay 2", rank: "dad(0.8)", solver: "dad(0.5,2)", wait: -1},
}

// shapes are the sites that a recorded workflow runs on.
var shapes = []struct {
	name                string
	sites, nodes, slots int
}{
	{"one site, 4 nodes of 4 slots", 1, 4, 4},
	{"one site, 16 nodes of 1 slot", 1, 16, 1},
	{"two sites, 4 nodes of 4 slots each", 2, 4, 4},
}

// played is a rival on one workflow and shape: medians over the seeds.
type played struct{ seconds, moved float64 }

// RunRecorded plays recorded workflows on three shapes of sites with our default,
// without waiting, and with the papers' policies.
func RunRecorded(options Options, workloads []*trace.Workload) (*Report, error) {
	options.Seeds = max(options.Seeds, 1)
	report := &Report{
		Paper: "recorded", Title: "Recorded workflows, our default beside others",
		Choices: []string{
			"Each workflow on three shapes of sites with default nodes (sim run); files are on the storage elements of all sites. " + fmt.Sprintf("Medians of %d seeds.", options.Seeds),
			"No waiting is the default with a locality wait of 0. Better and worse are makespans more than 1 % apart.",
		},
	}
	table := &chart.Table{Name: "recorded", Title: "Makespan in seconds, and GB over the network", Header: []string{"workflow", "sites"}}
	for _, r := range rivals {
		table.Header = append(table.Header, r.name)
	}
	ratios := make([][]float64, len(shapes)) // default by no waiting
	var all [][]played
	wins, losses := 0, 0
	for _, workload := range workloads {
		for at, shape := range shapes {
			results := make([]played, len(rivals))
			err := options.each(len(rivals), func(i int) (err error) {
				results[i], err = playRecorded(workload, at, rivals[i], options.Seeds)
				return err
			})
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", workload.Name, shape.name, err)
			}
			row := []string{workload.Name, shape.name}
			best := math.Inf(1)
			for i, r := range results {
				row = append(row, fmt.Sprintf("%.1f, %.1f", r.seconds, r.moved))
				if i > 0 {
					best = min(best, r.seconds)
				}
			}
			table.Rows, all = append(table.Rows, row), append(all, results)
			ratios[at] = append(ratios[at], results[0].seconds/results[1].seconds)
			switch ours := results[0].seconds; {
			case ours < best/1.01:
				wins++
			case ours > best*1.01:
				losses++
			}
		}
	}
	for at, shape := range shapes {
		mean, worst := geometricMean(ratios[at]), slices.Max(ratios[at])
		report.Findings = append(report.Findings, Finding{
			Claim: "our default's makespan by that without waiting, " + shape.name, Paper: "at most 1 in the geometric mean, 1.03 for each",
			Ours: fmt.Sprintf("%.3f; %.3f at the most, of %d", mean, worst, len(ratios[at])), Same: If(mean <= 1 && worst <= 1.03),
		})
	}
	report.Findings = append(report.Findings, beside(all)...)
	report.Findings = append(report.Findings, Finding{
		Claim: "our default beside the best of all others, each workflow and shape", Paper: "no loss",
		Ours: fmt.Sprintf("better in %d, worse in %d of %d", wins, losses, len(table.Rows)), Same: If(losses == 0),
	})
	report.Tables = []*chart.Table{table}
	return report, nil
}

// beside holds our default against each other rival over all workflows and shapes. Of
// overlap only the bytes count, of the policies of other aims only the time.
func beside(all [][]played) (findings []Finding) {
	for i, r := range rivals[1:] {
		var seconds, moved []float64
		for _, results := range all {
			ours, theirs := results[0], results[i+1]
			seconds = append(seconds, ours.seconds/theirs.seconds)
			if ours.moved > 0 && theirs.moved > 0 {
				moved = append(moved, ours.moved/theirs.moved)
			}
		}
		if r.rank != "overlap" {
			mean, bound := geometricMean(seconds), upperBound(seconds)
			findings = append(findings, Finding{
				Claim: "our default's makespan by that of " + r.name, Paper: "at most 1.00 in the geometric mean, 95 % bound 1.01",
				Ours: fmt.Sprintf("%.4f, bound %.4f; %.3f at the most", mean, bound, slices.Max(seconds)), Same: If(mean <= 1 && bound <= 1.01),
			})
		}
		if most, counts := mostMoved[r.name]; counts && len(moved) > 0 {
			mean := geometricMean(moved)
			findings = append(findings, Finding{
				Claim: "its bytes by those of " + r.name, Paper: fmt.Sprintf("at most %.2f in the geometric mean", most),
				Ours: fmt.Sprintf("%.3f; %.3f at the most", mean, slices.Max(moved)), Same: If(mean <= most),
			})
		}
	}
	return findings
}

// mostMoved is how many bytes our default may move by those of others.
var mostMoved = map[string]float64{"no waiting": 1, "rest": 1, "overlap": 1.1}

func playRecorded(workload *trace.Workload, shape int, r rival, seeds int) (played, error) {
	s := shapes[shape]
	var all []played
	for seed := range seeds {
		config := grid.Config{Workload: workload, Rank: r.rank, Seed: uint64(seed) + 1, Noticed: 3 * time.Second}
		for i := range s.sites {
			site := grid.DefaultSite(task.Site(fmt.Sprintf("site%c", 'A'+i)))
			site.Solver, site.LocalityWait = r.solver, r.wait
			node := grid.DefaultNode()
			node.Slots, node.Cores = s.slots, s.slots
			makeRoom(&node, workload)
			site.Nodes = slices.Repeat([]grid.Node{node}, s.nodes)
			config.Sites = append(config.Sites, site)
		}
		result, err := grid.Run(config)
		if err != nil {
			return played{}, err
		}
		all = append(all, played{result.Makespan.Seconds(), (result.StorageBytes + result.PeerBytes) / 1e9})
	}
	median := func(of func(played) float64) float64 {
		values := make([]float64, len(all))
		for i, p := range all {
			values[i] = of(p)
		}
		slices.Sort(values)
		return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
	}
	return played{
		median(func(p played) float64 { return p.seconds }), median(func(p played) float64 { return p.moved }),
	}, nil
}

// makeRoom makes a node as large as the largest task asks for.
func makeRoom(node *grid.Node, workload *trace.Workload) {
	for i := range workload.Tasks {
		t := &workload.Tasks[i]
		var reads task.Bytes
		for _, f := range t.Inputs {
			reads += workload.Files[f].Size
		}
		node.Cores, node.Memory, node.Cache = max(node.Cores, t.Cores), max(node.Memory, t.Memory), max(node.Cache, 2*reads)
	}
}

// upperBound is the geometric mean that is exceeded with a chance of 5 %, were the values
// drawn anew.
func upperBound(values []float64) float64 {
	if len(values) < 2 {
		return math.Inf(1)
	}
	mean, squares := math.Log(geometricMean(values)), 0.0
	for _, v := range values {
		squares += (math.Log(v) - mean) * (math.Log(v) - mean)
	}
	n := float64(len(values))
	return math.Exp(mean + 1.645*math.Sqrt(squares/(n-1)/n))
}

func geometricMean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += math.Log(v)
	}
	return math.Exp(sum / float64(len(values)))
}
