package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pilotage-grid/pilotage/bench"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/sim/chart"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
)

func (a *benches) overlay() *cobra.Command {
	o := bench.Overlay{TaskTime: time.Second}
	var wait time.Duration
	var workflow, mode, transport, plot, fileSize string
	var given func(flag string) bool
	command := a.command("overlay", "Measure whole sites: a real queue and many pilots in this process",
		`Runs a workflow of two steps over many pilots, each with its worker, master, node
and conversation with the queue as in production. Only what lies on a worker
node is replaced: files have no bytes, but take the time to stage in that theirs would,
and payloads sleep. With --transport processes nothing is: each pilot is a
process, for a comparison at tens of pilots.`,
		func(ctx context.Context, setup bench.Setup) (_ any, _ [][]string, err error) {
			o.Setup, o.Workflow, o.Transport = setup, bench.Pattern(workflow), bench.Transport(transport)
			if given("locality-wait") {
				o.LocalityWait = &wait
			}
			if o.FileSize, err = task.ParseBytes(fileSize); err != nil {
				return nil, nil, coded(exitUsage, "--file-bytes: %v", err)
			}
			if o.Transport == bench.TransportProcesses && !given("file-bytes") {
				o.FileSize = task.MiB
			}
			if o.Mode = taskpb.Mode(mode); o.Mode == pb.SiteMode_SITE_MODE_UNSPECIFIED {
				return nil, nil, coded(exitUsage, "--mode is %q: give distributed, centralized or isolated", mode)
			}
			return a.runOverlay(ctx, o, plot)
		})
	given = command.Flags().Changed
	flags := command.Flags()
	flags.IntVar(&o.Pilots, "pilots", 100, "pilots, one slot each")
	flags.IntVar(&o.Sites, "sites", 2, "sites that the pilots are spread over")
	flags.IntVar(&o.Tasks, "tasks", 1000, "tasks of both steps together")
	flags.StringVar(&workflow, "workflow", "serial", "serial, splitting or merging")
	flags.StringVar(&mode, "mode", "distributed", "mode of the sites: distributed, centralized or isolated")
	flags.StringVar(&transport, "transport", "light", "what carries the pilots' bytes: light (memory) or tcp; processes: TCP, and each pilot is a process with real files and payloads")
	flags.Var(seconds{&o.TaskTime}, "task-seconds", "usual time of a task; each varies by 30 %")
	flags.Var(seconds{&o.RoundPeriod}, "round-period", "seconds between rounds; 0: as events come")
	flags.IntVar(&o.Prefill, "prefill", 1, "tasks that a slot gets early")
	flags.Var(seconds{&wait}, "locality-wait", "seconds for which a free slot leaves tasks to pilots that have their inputs; 0: not at all (default: the queue's)")
	flags.StringVar(&fileSize, "file-bytes", "100MB", "size of each file that a task writes (processes: 1MiB)")
	flags.IntVar(&o.CacheFiles, "cache-files", 0, "files that each cache holds; 0: all")
	flags.Float64Var(&o.CacheShare, "cache-share", 0, "size of each cache as a share of a pilot's working set, the files that it makes and reads if tasks run where their inputs were made (tasks / pilots); 0: by --cache-files")
	flags.Float64Var(&o.KillRate, "kill-rate", 0, "share of the pilots killed per second")
	flags.IntVar(&o.KillMasters, "kill-masters", 0, "masters killed, one every 5 s or more while tasks run")
	flags.IntVar(&o.HangMasters, "hang-masters", 0, "masters stopped for a while, one every 10 s or more while tasks run")
	flags.StringVar(&plot, "plot", "", "folder for figures of the run over time (CSV, SVG, PNG) and a page with them")
	flags.Uint64Var(&o.Seed, "seed", 1, "draws task times and kills")
	return command
}

// runOverlay measures, and draws the run over time where plot names a folder.
func (a *benches) runOverlay(ctx context.Context, o bench.Overlay, plot string) (any, [][]string, error) {
	if err := o.Validate(); err != nil {
		return nil, nil, usage(err)
	}
	if plot == "" {
		r, err := o.Run(ctx)
		return r, overlayRows(r), err
	}
	if err := checkFolder("--plot", plot); err != nil {
		return nil, nil, err
	}
	r, figures, err := o.Draw(ctx)
	if err != nil {
		return nil, nil, err
	}
	rows := overlayRows(r)
	page := &chart.Page{Title: "pilotage bench overlay", Figures: figures, Tables: []*chart.Table{{Name: "figures", Title: "Figures", Header: benchHeader, Rows: rows}}}
	return r, rows, a.out.writePage(plot, page)
}

func overlayRows(r bench.OverlayResult) [][]string {
	milliseconds := func(d bench.Distribution) string {
		return fmt.Sprintf("p50 %.1f, p95 %.1f, p99 %.1f", 1000*d.P50, 1000*d.P95, 1000*d.P99)
	}
	delayGoal := "p50 <= 20, p99 <= 500"
	if r.Prefill == 0 {
		delayGoal = "p50 <= 250 without prefill"
	}
	// A goal stands only beside what was there to be measured.
	goal := func(measured bool, goal string) string {
		if measured {
			return goal
		}
		return ""
	}
	distributed := r.Mode == "distributed"
	rounds, bytes := "not measured", "not measured"
	switch {
	case r.Rounds != nil:
		rounds = fmt.Sprintf("%d, coverage at least %.4f, latency p50 %.0f ms, p99 %.0f ms", r.Rounds.Count, r.Rounds.CoverageMin, 1000*r.Rounds.LatencyP50, 1000*r.Rounds.LatencyP99)
		bytes = decimal(r.Rounds.BytesPerPilot)
	case !distributed:
		rounds, bytes = "none: the queue matches tasks to pilots", ""
	}
	caches := "hold all"
	if r.CacheFiles > 0 {
		caches = fmt.Sprintf("of %d files, %.2f of what a pilot made and read", r.CacheFiles, r.Cache.Capacity)
	}
	peers := "not measured"
	if r.Rounds != nil {
		peers = strconv.Itoa(r.Rounds.PeersMax)
	}
	searches, messages := "not measured", "not measured"
	if t := r.Traffic; t != nil {
		searches = fmt.Sprintf("%s, of %d", milliseconds(t.SearchTime), t.Searches)
		if len(t.MessagesPerTask) > 0 {
			messages = messagesText(t.MessagesPerTask)
		}
	}
	lostGoal := "0, 0"
	if r.Master.Hung > 0 {
		lostGoal = "0, what stopped masters had begun"
	}
	takenAway := r.Killed+r.Master.Killed+r.Master.Hung > 0
	return [][]string{
		{"run", fmt.Sprintf("%d pilots, %d sites, %d tasks, %s, %s, seed %d", r.Pilots, r.Sites, r.Tasks, r.Workflow, r.Mode, r.Seed), ""},
		{"carried by", string(r.Transport) + ", payloads sleep " + decimal(r.TaskSeconds) + " s", ""},
		{"pilots joined in, s", decimal(r.JoinSeconds), ""},
		{"makespan, s", decimal(r.Makespan), ""},
		{"all slots filled after, s", decimal(r.FirstFill) + " (" + strconv.Itoa(r.FilledSlots) + " slots)", "<= 10"},
		{"queue requests per task", strconv.FormatFloat(r.RequestsPerTask, 'f', 4, 64), ""},
		{"beside joining and leaving", strconv.FormatFloat(r.RequestsBesideJoining, 'f', 4, 64), goal(distributed, "<= 0.2 for 10000 tasks")},
		{"longest queue, tasks", strconv.Itoa(r.QueueLengthMax), ""},
		{"inter-task delay, ms", milliseconds(r.InterTaskDelay) + ", of " + decimal(100*r.DelayShare) + " % of slot changes", delayGoal},
		{"slot change, ms", milliseconds(r.SlotChange) + ", of " + decimal(100*r.SlotChangeShare) + " % of slot changes", ""},
		{"dependency delay, ms", milliseconds(r.DependencyDelay) + ", of " + decimal(100*r.DependencyShare) + " % of readers", goal(r.DependencyShare > 0, "p50 <= 100")},
		{"reads local, peer, SE", fmt.Sprintf("%d, %d, %d", r.Cache.Local, r.Cache.Peer, r.Cache.SE), ""},
		{"total hit ratio", strconv.FormatFloat(r.Cache.TotalHits, 'f', 4, 64), goal(distributed && !takenAway, ">= 0.999, 1 without kills")},
		{"local hit ratio", fmt.Sprintf("%.4f, best possible %.4f", r.Cache.LocalHits, r.Cache.BestLocalHits), goal(distributed && !takenAway, ">= 0.98 of the best")},
		{"caches, evictions", caches + ", " + strconv.FormatUint(r.Cache.Evictions, 10), ""},
		{"rounds", rounds, ""},
		{"peers per node and round, at most", peers, goal(r.Rounds != nil, "<= 8")},
		{"bytes per pilot and round", bytes, goal(r.Rounds != nil && r.Rounds.BytesPerPilot > 0, "< 20000")},
		{"searches for files, ms", searches, goal(r.Traffic != nil && r.Traffic.Searches > 0, "p99 <= 50")},
		{"messages between pilots per task", messages, ""},
		{"killed pilots, changes of master", fmt.Sprintf("%d, %d", r.Killed, r.Master.Changes), ""},
		{"masters killed, stopped", mastersText(&r), goal(takenAway && r.Master.Failover > 0, "<= 5 s killed, <= 15 s stopped")},
		{"lost tasks, duplicate outcomes", fmt.Sprintf("%d, %d", r.LostTasks, r.Duplicates), lostGoal},
		{"CPU in all, of the queue, s", decimal(r.CPU) + ", " + decimal(r.QueueCPU), ""},
		{"RSS in all, of the queue, MiB", decimal(float64(r.RSS)/(1<<20)) + ", " + decimal(float64(r.QueueRSS)/(1<<20)), ""},
		{"file system", r.FileSystem, ""},
		{"load before, after", r.LoadBefore + ", " + r.LoadAfter, ""},
	}
}

// messagesText sums messages up, and says of which kinds they are.
func messagesText(byKind map[string]float64) string {
	sum, kinds := 0.0, make([]string, 0, len(byKind))
	for _, kind := range slices.Sorted(maps.Keys(byKind)) {
		sum += byKind[kind]
		kinds = append(kinds, kind+" "+decimal(byKind[kind]))
	}
	return decimal(sum) + ": " + strings.Join(kinds, ", ")
}

// mastersText says how many masters were taken away of how many that were to be,
// and for how long each kind was missed.
func mastersText(r *bench.OverlayResult) string {
	m := &r.Master
	if r.KillMasters+r.HangMasters == 0 {
		return "none"
	}
	longest := func(d bench.Distribution) string {
		if d == (bench.Distribution{}) {
			return "-"
		}
		return fmt.Sprintf("%.2f s", d.P99)
	}
	text := fmt.Sprintf("%d of %d, %d of %d; failover p99 %s, %s", m.Killed, r.KillMasters, m.Hung, r.HangMasters, longest(m.FailoversKilled), longest(m.FailoversHung))
	if m.Unfinished > 0 {
		text += fmt.Sprintf("; %d not over when the work was", m.Unfinished)
	}
	if m.Killed < r.KillMasters || m.Hung < r.HangMasters {
		text += "; give more or longer tasks for all"
	}
	return text
}
