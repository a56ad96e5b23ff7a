package main

import (
	"cmp"
	"context"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/pilotage-grid/pilotage/matcher"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
)

func (a siteCommands) group() *cobra.Command {
	command := &cobra.Command{Use: "site", Short: "Add, list, show, drain and remove sites"}
	command.AddCommand(append(a.completed(siteNames, a.show(), a.drain(), a.remove()), a.add(), a.list(), a.trace())...)
	return command
}

func (a siteCommands) add() *cobra.Command {
	settings, given := &pb.SiteSettings{}, &fieldmaskpb.FieldMask{}
	var mode string
	var prefill int
	var confinement task.Confinement
	var period, wait time.Duration
	command := a.tool("add NAME", "Add a site, or change its settings", func(ctx context.Context, c *clients, args []string) error {
		settings.Name = args[0]
		reply, err := c.sites.AddSite(ctx, &pb.AddSiteRequest{Settings: settings, UpdateMask: given})
		if err != nil {
			return err
		}
		verb := "changed"
		switch {
		case reply.GetCreated():
			verb = "added"
		case len(given.GetPaths()) == 0:
			verb = "exists; nothing was changed"
		}
		if len(settings.GetReach()) > 0 && !reply.GetSite().GetSettings().GetRemoteRead() {
			verb += "; --reach counts when --remote-read is given, too; now the site may read from: " + reachText(reply.GetSite().GetSettings())
		}
		return a.out.done(nil, reply, "site %s %s", args[0], verb)
	})
	command.Long = `Adds a site. The queue writes the access file for its pilots to
DATA/access/pilot-NAME.json. Of a site that exists, only the settings whose
flags are given are changed. Without --se a site has no storage element: what its
tasks make stays in its pilots' caches. Where pilots cannot reach one another a
site falls back to mode isolated, and goes back by itself when they can; --mode
sets what holds at once, and a site that is set to isolated stays so.
The files of --se-token-file, --se-client-cert and --se-ca are on the queue's host,
which reads them again every few seconds. Pilots of sites that may read the storage
element are told what the files hold, in memory only; payloads are not.`
	command.Example = `  pilotage site add siteA --se https://se.site-a.example/pilotage
  pilotage site add siteA --se-token-file /etc/pilotage/siteA.token
  pilotage site add siteA --locality-wait 1m --rank rest
  pilotage site add siteA --reach siteB,siteC       # reads these sites' storage elements beside its own; both were added before`
	command.PreRunE = func(*cobra.Command, []string) error {
		given.Paths = settingsGiven(command.Flags())
		if settings.GetStorageUrl() == "" && command.Flags().Changed("se") {
			return coded(exitUsage, "--se is empty: give a URL, file:// or http(s)://, or leave the flag out (a site without a storage element keeps files in its caches only)")
		}
		if len(settings.GetReach()) > 0 && !settings.GetRemoteRead() {
			return coded(exitUsage, "--reach names sites that --remote-read=false forbids to read: give one of the two")
		}
		if settings.Mode = taskpb.Mode(mode); settings.GetMode() == pb.SiteMode_SITE_MODE_UNSPECIFIED {
			return coded(exitUsage, "--mode is %q: give distributed, centralized or isolated", mode)
		}
		settings.MinConfinement = int32(confinement)
		settings.RoundPeriod, settings.LocalityWait, settings.Prefill = durationpb.New(period), durationpb.New(wait), proto.Int32(int32(prefill))
		return usage(checkLocalityWait(wait))
	}
	flags := command.Flags()
	flags.StringVar(&settings.StorageUrl, "se", "", "storage element, file:// or http(s)://")
	flags.StringVar(&settings.SeTokenFile, "se-token-file", "", "file on the queue's host with the bearer token that the storage element asks for ('': none)")
	flags.StringVar(&settings.SeClientCert, "se-client-cert", "", "file on the queue's host with a client certificate, its chain and its key, in PEM ('': none)")
	flags.StringVar(&settings.SeCa, "se-ca", "", "file on the queue's host with the authorities of the storage element's certificate, in PEM ('': the system's)")
	flags.BoolVar(&settings.RemoteRead, "remote-read", true, "may read other sites' storage elements; false: its own only")
	flags.StringSliceVar(&settings.Reach, "reach", nil, "other sites whose storage elements it may read, separated by commas (default, and '': all)")
	flags.StringVar(&mode, "mode", "distributed", "how the site schedules: distributed (its master matches tasks to pilots), centralized (the queue does) or isolated (the queue does, pilots share no files)")
	flags.DurationVar(&period, "round-period", 0, "fixed period of the task list (default 0: driven by events)")
	flags.IntVar(&prefill, "prefill", 1, "tasks per slot that are given early")
	flags.DurationVar(&wait, "locality-wait", 30*time.Second, "how long a free slot leaves tasks to pilots where they start sooner, as they have their inputs; at most 1h; 0: not at all (mode distributed, solver greedy, rank locality)")
	flags.StringVar(&settings.Solver, "solver", "greedy", "who gets which task: greedy, exact, sequential, choose(N), or in mode distributed dad(THRESHOLD,PASSES)")
	flags.StringVar(&settings.Rank, "rank", "locality", "of tasks that give none: locality, overlap, rest, combined, dad(BETA), ..., or a CEL expression (docs/policies.md)")
	flags.StringVar(&settings.Replicate, "replicate", "", "in mode distributed, which files are copied to further pilots before tasks ask for them: alpha(N), plans(SECONDS,LIMIT[,eliminate]), or several in their order, separated by semicolons (default: none)")
	flags.Var(&confinement, "min-confinement", "how strictly pilots have to confine payloads to be let in: NONE, LANDLOCK, NAMESPACES or CONTAINER")
	return command
}

// checkLocalityWait refuses what no site can have.
func checkLocalityWait(wait time.Duration) error {
	if wait < 0 || wait > time.Hour {
		return fmt.Errorf("--locality-wait is %s: give a time up to 1h, for example 30s, or 0 for free slots to wait for nobody", wait)
	}
	return nil
}

// settingsGiven names the settings of a site that the command line gives.
func settingsGiven(flags *pflag.FlagSet) (fields []string) {
	known := (&pb.SiteSettings{}).ProtoReflect().Descriptor().Fields()
	flags.Visit(func(flag *pflag.Flag) {
		field := strings.ReplaceAll(flag.Name, "-", "_")
		if field == "se" {
			field = "storage_url"
		}
		if known.ByName(protoreflect.Name(field)) != nil {
			fields = append(fields, field)
		}
	})
	return fields
}

func (a siteCommands) remove() *cobra.Command {
	request := &pb.RemoveSiteRequest{}
	command := a.tool("remove NAME", "Forget a site that nobody works at and that holds no file alone", func(ctx context.Context, c *clients, args []string) error {
		request.Name = args[0]
		_, err := c.sites.RemoveSite(ctx, request)
		return a.out.done(err, map[string]any{"site": args[0], "removed": true}, "site %s is removed", args[0])
	})
	command.Long = `Forgets a site and revokes the accesses of its pilots. That is refused while the
site has live pilots, holds tasks, or has the only copy of a file on its storage
element (pilotage file list --only-at NAME lists such files). Copy these files to
the storage element of another site and register the copies there with pilotage
file register, or drain the site instead: then it gets no tasks and no uploads.

With --force such files are lost to the catalogue. What tasks made is made again at
other sites, also final outputs of workflows that are DONE, whose tasks run again
then. Tasks that read a file that no task makes wait until it is registered again.
Nothing is deleted from the storage element in either case.`
	command.Example = `  pilotage site drain siteA
  pilotage file list --only-at siteA
  pilotage file register w-rxujdy4egq:out.txt --at siteB=https://se.site-b.example/old/out.txt
  pilotage site remove siteA`
	command.Flags().BoolVar(&request.Force, "force", false, "also if its storage element has the only copy of files, which are lost then")
	return command
}

func (a siteCommands) list() *cobra.Command {
	return a.tool("list", "List sites", func(ctx context.Context, c *clients, _ []string) error {
		return printWhole(ctx, a.out, c.sites.ListSites, &pb.ListSitesRequest{}, (*pb.ListSitesResponse).GetSites, siteHeader, siteRow)
	})
}

var siteHeader = []string{"SITE", "MODE", "STATE", "PILOTS", "FREE/SLOTS", "RUNNING", "WAITING", "MASTER", "STORAGE"}

func siteRow(s *pb.Site) []any {
	state := "open"
	if s.GetSettings().GetDraining() {
		state = "draining"
	}
	return []any{
		s.GetSettings().GetName(), listedMode(s), state, s.GetPilots(), fmt.Sprintf("%d/%d", s.GetFreeSlots(), s.GetSlots()),
		s.GetRunning(), s.GetWaiting(), presentMaster(s), s.GetSettings().GetStorageUrl(),
	}
}

// presentMaster is a site's master while it has pilots that need one.
func presentMaster(s *pb.Site) string {
	if s.GetPilots() == 0 || s.GetSettings().GetMode() == pb.SiteMode_SITE_MODE_ISOLATED {
		return ""
	}
	return s.GetMaster()
}

func (a siteCommands) drain() *cobra.Command {
	request := &pb.DrainSiteRequest{}
	command := a.tool("drain NAME", "Hand no more tasks to a site, and upload nothing to it", func(ctx context.Context, c *clients, args []string) error {
		request.Name = args[0]
		_, err := c.sites.DrainSite(ctx, request)
		text := "site %s gets no more tasks"
		if request.GetResume() {
			text = "site %s gets tasks again"
		}
		return a.out.done(err, map[string]any{"site": args[0], "draining": !request.GetResume()}, text, args[0])
	})
	command.Flags().BoolVar(&request.Resume, "resume", false, "hand tasks out again")
	return command
}

func (a siteCommands) show() *cobra.Command {
	since := time.Duration(0)
	command := a.tool("show NAME", "Show a site: hit ratios, slots, master, requests, delay", func(ctx context.Context, c *clients, args []string) error {
		request := &pb.GetSiteRequest{Name: args[0]}
		if since > 0 {
			request.Since = durationpb.New(since)
		}
		reply, err := c.sites.GetSite(ctx, request)
		switch {
		case err != nil:
			return err
		case since > 0:
			return a.out.print(reply.GetWindow(), nil, windowRows(reply.GetWindow()))
		}
		return a.out.print(reply.GetSite(), nil, siteRows(reply.GetSite()))
	})
	command.Flags().DurationVar(&since, "since", 0, "tell only what it did so long up to now, for example 1h; a day at most, and not before the queue's start")
	return command
}

// windowRows tell what a site did lately.
func windowRows(w *pb.SiteWindow) [][]string {
	reads, all := w.GetReads(), uint64(0)
	for _, n := range []uint64{reads.GetLocalReads(), reads.GetPeerReads(), reads.GetSeReads(), reads.GetRemoteReads()} {
		all += n
	}
	bytes := reads.GetLocalBytes() + reads.GetPeerBytes() + reads.GetSeBytes() + reads.GetRemoteBytes()
	rows := [][]string{
		{"time up to now", w.GetTime().AsDuration().Round(time.Second).String()},
		{"tasks done", fmt.Sprint(w.GetTasks())},
		{"failed attempts", fmt.Sprint(w.GetFailures())},
		{"inputs read", fmt.Sprint(all)},
		{"total hit ratio, files", percent(reads.GetLocalReads()+reads.GetPeerReads(), all)},
		{"local hit ratio, files", percent(reads.GetLocalReads(), all)},
		{"total hit ratio, bytes", percent(reads.GetLocalBytes()+reads.GetPeerBytes(), bytes)},
		{"kept off the storage element", sizeText(int64(reads.GetLocalBytes() + reads.GetPeerBytes()))},
		{"evictions", fmt.Sprint(w.GetEvictions())},
		{"calls to the queue", fmt.Sprint(w.GetQueueRequests())},
	}
	if n := w.GetDelayCount(); n > 0 {
		mean := w.GetDelaySum().AsDuration() / time.Duration(n)
		rows = append(rows, []string{"inter-task delay, mean", mean.Round(100 * time.Microsecond).String()})
	}
	if why := w.GetWhyFewHits(); why != "" {
		rows = append(rows, []string{"why hits are low", why})
	}
	return rows
}

// modeText is the mode in force, and why if it is not the one that was set.
func modeText(s *pb.Site) string {
	mode := taskpb.FromMode(s.GetSettings().GetMode())
	if s.GetModeFor() != nil {
		mode += fmt.Sprintf(" for %s", s.GetModeFor().AsDuration().Round(time.Second))
	}
	if s.GetFallback() == "" {
		return mode
	}
	next := "they try again now"
	if in := s.GetTrialIn().AsDuration().Round(time.Second); in > 0 {
		next = fmt.Sprintf("they try again in %s", in)
	}
	return fmt.Sprintf("%s: %s; %s ('site add --mode' ends it or has it stay)", mode, s.GetFallback(), next)
}

// listedMode is the mode in force, marked if it is not the one that was set.
func listedMode(s *pb.Site) string {
	mode := taskpb.FromMode(s.GetSettings().GetMode())
	if s.GetFallback() != "" {
		mode += " (fallen back)"
	}
	return mode
}

// waitText is how long free slots of a site wait for pilots that have the inputs
// of tasks.
func waitText(s *pb.Site) string {
	settings := s.GetSettings()
	wait := settings.GetLocalityWait().AsDuration()
	solver, err := matcher.ParseSolver(settings.GetSolver())
	switch {
	case settings.GetMode() != pb.SiteMode_SITE_MODE_DISTRIBUTED:
		return "none: the queue matches tasks to pilots"
	case settings.GetRoundPeriod().AsDuration() > 0:
		return "none: tasks are assigned in rounds of a fixed period"
	case wait == 0:
		return "none"
	case err == nil && !solver.Waits():
		return "none: solver " + settings.GetSolver() + " waits for nobody"
	}
	return wait.String()
}

func siteRows(s *pb.Site) [][]string {
	rows := [][]string{
		{"site", s.GetSettings().GetName()},
		{"mode", modeText(s)},
		{"solver", cmp.Or(s.GetSettings().GetSolver(), "greedy")},
		{"rank", cmp.Or(s.GetSettings().GetRank(), "locality")},
		{"locality wait", waitText(s)},
		{"rounds", roundsText(s.GetSettings())},
		{"replica policies", replicasText(s)},
		{"least confinement", task.Confinement(s.GetSettings().GetMinConfinement()).String()},
		{"storage element", cmp.Or(s.GetSettings().GetStorageUrl(), "none: what tasks make stays in the caches of its pilots")},
		{"  opened by", credentialsText(s.GetSettings())},
		{"may read from", reachText(s.GetSettings())},
		{"pilots", pilotsText(s)},
		{"slots", fmt.Sprintf("%d, %d free", s.GetSlots(), s.GetFreeSlots())},
		{"tasks", fmt.Sprintf("%d done, %s, %s; %d running, %d waiting", s.GetTasks(), task.Counted(s.GetFailures(), "failed attempt"), task.Counted(s.GetDuplicates(), "duplicate"), s.GetRunning(), s.GetWaiting())},
	}
	all := addSums(s.GetIntermediate(), s.GetExternal())
	rows = append(rows, ratioRows("reads", all)...)
	rows = append(rows, ratioRows("  made by tasks", s.GetIntermediate())...)
	rows = append(rows, ratioRows("  from outside", s.GetExternal())...)
	saved := task.Bytes(all.GetLocalBytes() + all.GetPeerBytes())
	rows = append(rows, [][]string{
		{"kept off the storage element", saved.String()},
		{"transfers from it", fmt.Sprintf("%s, %s", task.Counted(s.GetSeTransfers(), "file"), task.Bytes(s.GetSeTransferBytes()))},
		{"caches", fmt.Sprintf("%s of %s used, %s, %s", task.Bytes(s.GetCacheUsedBytes()), task.Bytes(s.GetCacheBytes()), task.Counted(s.GetEvictions(), "eviction"), task.Counted(s.GetDamaged(), "damaged file"))},
		{"inter-task delay", delayText(s)},
		{"queue requests", requestsText(s)},
		{"master", masterText(s)},
	}...)
	for _, h := range s.GetHistory() {
		rows = append(rows, []string{"  term " + h.GetTerm(), fmt.Sprintf("%s since %s (%s)", h.GetPilot(), h.GetSince().AsTime().Format(inUTC), h.GetWhy())})
	}
	for _, refused := range s.GetRefused() {
		rows = append(rows, []string{"cannot run", refusedText(refused)})
	}
	return rows
}

// roundsText says when a site's tasks are assigned, and how many a slot gets
// before it is free.
func roundsText(s *pb.SiteSettings) string {
	when := "driven by events"
	if period := s.GetRoundPeriod().AsDuration(); period > 0 {
		when = "every " + period.String()
	}
	if s.GetMode() != pb.SiteMode_SITE_MODE_DISTRIBUTED {
		when = "none, as the queue matches one pilot at a time"
	}
	early := "none early"
	if s.GetPrefill() > 0 {
		early = fmt.Sprintf("%d early (prefill)", s.GetPrefill())
	}
	return when + "; beside its running task a slot gets " + early
}

// credentialsText names the files with what the storage element asks for.
func credentialsText(s *pb.SiteSettings) string {
	var files []string
	for _, file := range []string{s.GetSeTokenFile(), s.GetSeClientCert(), s.GetSeCa()} {
		if file != "" {
			files = append(files, file)
		}
	}
	return cmp.Or(strings.Join(files, ", "), "no credential")
}

// reachText says whose storage elements a site may read.
func reachText(s *pb.SiteSettings) string {
	own, others := "its own storage element", "those of all other sites"
	if len(s.GetReach()) > 0 {
		others = "those of " + strings.Join(s.GetReach(), ", ")
	}
	switch {
	case s.GetStorageUrl() == "" && s.GetRemoteRead():
		return "no storage element of its own; " + others
	case s.GetStorageUrl() == "":
		return "no storage element: it has none, and may not read those of other sites"
	case !s.GetRemoteRead():
		return own + " only"
	}
	return own + ", and " + others
}

// masterText names the master, or who was it last.
func masterText(s *pb.Site) string {
	switch ago := s.GetLastSyncAgo().AsDuration().Round(time.Millisecond); {
	case s.GetMaster() == "":
		return "-"
	case s.GetSettings().GetMode() == pb.SiteMode_SITE_MODE_ISOLATED:
		return "none: pilots of a site in mode isolated speak for themselves"
	case s.GetPilots() == 0:
		return fmt.Sprintf("none, as there is no pilot; the last one was %s, term %s, heard %s ago", s.GetMaster(), s.GetTerm(), ago)
	default:
		return fmt.Sprintf("%s, term %s, heard %s ago", s.GetMaster(), s.GetTerm(), ago)
	}
}

func addSums(a, b *pb.SourceSums) *pb.SourceSums {
	return &pb.SourceSums{
		LocalReads: a.GetLocalReads() + b.GetLocalReads(), PeerReads: a.GetPeerReads() + b.GetPeerReads(),
		SeReads: a.GetSeReads() + b.GetSeReads(), RemoteReads: a.GetRemoteReads() + b.GetRemoteReads(),
		LocalBytes: a.GetLocalBytes() + b.GetLocalBytes(), PeerBytes: a.GetPeerBytes() + b.GetPeerBytes(),
		SeBytes: a.GetSeBytes() + b.GetSeBytes(), RemoteBytes: a.GetRemoteBytes() + b.GetRemoteBytes(),
	}
}

// ratioRows prints the hit ratios as INTERFACE defines them: total = (local +
// peer) / all, local = local / all.
func ratioRows(name string, s *pb.SourceSums) [][]string {
	reads := s.GetLocalReads() + s.GetPeerReads() + s.GetSeReads() + s.GetRemoteReads()
	bytes := s.GetLocalBytes() + s.GetPeerBytes() + s.GetSeBytes() + s.GetRemoteBytes()
	return [][]string{
		{name, fmt.Sprintf("%d: %d local, %d peer, %d storage element, %d remote", reads, s.GetLocalReads(), s.GetPeerReads(), s.GetSeReads(), s.GetRemoteReads())},
		{"", fmt.Sprintf("total hit ratio %s of files, %s of bytes; local %s, %s",
			percent(s.GetLocalReads()+s.GetPeerReads(), reads), percent(s.GetLocalBytes()+s.GetPeerBytes(), bytes),
			percent(s.GetLocalReads(), reads), percent(s.GetLocalBytes(), bytes))},
	}
}

// pilotsText says how many pilots there are, and why some take no new work.
func pilotsText(s *pb.Site) string {
	if s.GetStoppedPilots() == 0 {
		return fmt.Sprint(s.GetPilots())
	}
	if s.GetStoppedPilots() == 1 {
		return fmt.Sprintf("%d, of which one takes no new work: %s", s.GetPilots(), s.GetStoppedWhy())
	}
	return fmt.Sprintf("%d, of which %d take no new work; one of them: %s", s.GetPilots(), s.GetStoppedPilots(), s.GetStoppedWhy())
}

// replicasText names the replica policies and counts what they have had copied.
func replicasText(s *pb.Site) string {
	policies := cmp.Or(s.GetSettings().GetReplicate(), "none")
	if s.GetReplicas() == 0 {
		return policies
	}
	return fmt.Sprintf("%s; copies made: %d, %s", policies, s.GetReplicas(), task.Bytes(s.GetReplicaBytes()))
}

func delayText(s *pb.Site) string {
	if s.GetDelayCount() == 0 {
		return "not measured yet"
	}
	return fmt.Sprintf("p50 %.3g s, p95 %.3g s, p99 %.3g s over %s",
		s.GetDelayP50Seconds(), s.GetDelayP95Seconds(), s.GetDelayP99Seconds(), task.Counted(s.GetDelayCount(), "slot change"))
}

func requestsText(s *pb.Site) string {
	text := fmt.Sprint(s.GetQueueRequests())
	if s.GetTasks() > 0 {
		text += fmt.Sprintf(", %.2f per task", float64(s.GetQueueRequests())/float64(s.GetTasks()))
	}
	methods := make([]string, 0, len(s.GetRequestsByMethod()))
	for method := range s.GetRequestsByMethod() {
		methods = append(methods, method)
	}
	sort.Strings(methods)
	for _, method := range methods {
		text += fmt.Sprintf("; %s %d", method, s.GetRequestsByMethod()[method])
	}
	return text
}

// refusedText says which tasks no pilot could run when they were last offered.
func refusedText(refused *pb.RefusedClass) string {
	if refused.GetRequire() == "" && len(refused.GetClauses()) == 0 {
		return "tasks of a class at " + task.Counted(refused.GetPilots(), "pilot")
	}
	tasks := "tasks"
	if require := refused.GetRequire(); require != "" {
		tasks += fmt.Sprintf(" that require `%s`", require)
	}
	return tasks + ": " + clausesText(refused.GetClauses())
}

func clausesText(clauses []*pb.ClauseCount) string {
	text := ""
	for i, clause := range clauses {
		if i > 0 {
			text += ", "
		}
		verb := "fail"
		if clause.GetPilots() == 1 {
			verb = "fails"
		}
		text += fmt.Sprintf("%s %s `%s`", task.Counted(clause.GetPilots(), "pilot"), verb, clause.GetClause())
	}
	return text
}
