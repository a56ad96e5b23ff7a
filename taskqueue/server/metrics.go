package server

import (
	"cmp"
	"context"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// figure is a metric that each scrape works out of what the store holds: it is durable,
// so counters do not fall when a server restarts. The names are an interface (INTERFACE,
// "Places and names").
type figure struct {
	about *prometheus.Desc
	kind  prometheus.ValueType
}

func counter(name, help string, labels ...string) figure {
	return figure{prometheus.NewDesc(name, help, labels, nil), prometheus.CounterValue}
}

func gauge(name, help string, labels ...string) figure {
	return figure{prometheus.NewDesc(name, help, labels, nil), prometheus.GaugeValue}
}

var (
	metricReads     = counter("pilotage_reads_total", "Inputs read by attempts, by where the bytes were at assignment.", "site", "source")
	metricReadBytes = counter("pilotage_read_bytes_total", "Bytes of inputs read by attempts, by where they were at assignment.", "site", "source")
	metricMode      = gauge("pilotage_site_mode", "1 for the mode by which a site schedules now.", "site", "mode")
	metricSlots     = gauge("pilotage_slots", "Slots of the live pilots, by state (free, busy).", "site", "state")
	metricPilots    = gauge("pilotage_pilots", "Pilots by state (alive, draining, held: they take no new work).", "site", "state")
	metricDemand    = gauge("pilotage_demand_tasks", "Tasks that wait for a site's pilots, and whether a live one can run them; each counts once among its sites.", "site", "live")
	metricUnheard   = gauge("pilotage_site_unheard", "1 while the master of a site with pilots is not heard.", "site")

	metricRequests   = counter("pilotage_queue_requests_total", "Calls and stream messages between the queue and pilots.", "method")
	metricDuplicates = counter("pilotage_duplicate_outcomes_total", "Outcomes of attempts whose task another attempt had won.")
	metricStale      = counter("pilotage_stale_term_rejects_total", "Calls of masters that were no longer in office.")
	metricDelay      = prometheus.NewDesc("pilotage_inter_task_delay_seconds", "End of one payload on a slot to the start of the next.", nil, nil)

	metricTasks   = gauge("pilotage_tasks", "Tasks of the newest 2,000 workflows by state; LEASED ones by site, too.", "state", "site")
	metricReady   = gauge("pilotage_ready_tasks", "READY tasks by what they ask of a pilot: the 20 largest classes, and the others.", "class")
	metricUploads = gauge("pilotage_uploads_pending", "Final outputs of the newest 2,000 workflows that are on no storage element yet.")

	metricConnections = counter("pilotage_refused_connections_total",
		"Connections that the queue closed: displaced by newer ones, of a stranger who stayed too long or sent too much, or heavy, as its calls brought too much.", "why")
	metricBuild = gauge("pilotage_build_info", "Always 1.", "version", "go")
)

// siteFigures have one value for each site.
var siteFigures = []struct {
	figure
	of func(*taskqueue.SiteRecord) float64
}{
	{counter("pilotage_se_bytes_saved_total", "Bytes read from own and peers' caches instead of a storage element.", "site"), func(s *taskqueue.SiteRecord) float64 {
		bytes := s.Sums.Reads().Bytes
		return float64(bytes[task.SourceLocal] + bytes[task.SourcePeer])
	}},
	{counter("pilotage_replicas_total", "Copies of files that replica policies have had made.", "site"),
		func(s *taskqueue.SiteRecord) float64 { return float64(s.Sums.Replicas.Files) }},
	{counter("pilotage_replica_bytes_total", "Bytes of the copies that replica policies have had made.", "site"),
		func(s *taskqueue.SiteRecord) float64 { return float64(s.Sums.Replicas.Bytes) }},
	{gauge("pilotage_cache_damaged_files", "Cached files that had rotted on the disks of the live pilots since their start.", "site"),
		func(s *taskqueue.SiteRecord) float64 { return float64(s.Capacity.Damaged) }},
	{gauge("pilotage_nodes_set_back", "Worker nodes that get no tasks, or one on trial, because tasks fail there that do not elsewhere.", "site"),
		func(s *taskqueue.SiteRecord) float64 { return float64(len(s.Nodes)) }},
	{gauge("pilotage_site_fallen_back", "1 while a site works isolated because its pilots do not reach one another.", "site"),
		func(s *taskqueue.SiteRecord) float64 { return oneIf(s.Fallback != "") }},
	{gauge("pilotage_master_term", "Epoch of the mastership in office.", "site"),
		func(s *taskqueue.SiteRecord) float64 { return float64(s.Term.Epoch) }},
	{counter("pilotage_master_changes_total", "Masterships that followed a site's first one.", "site"),
		func(s *taskqueue.SiteRecord) float64 { return float64(max(s.Term.Epoch, 1) - 1) }},
	{gauge("pilotage_cache_bytes", "Room in the caches of the live pilots.", "site"),
		func(s *taskqueue.SiteRecord) float64 { return float64(s.Capacity.CacheBytes) }},
	{gauge("pilotage_cache_used_bytes", "Bytes in the caches of the live pilots.", "site"),
		func(s *taskqueue.SiteRecord) float64 { return float64(s.Capacity.CacheUsed) }},
	{gauge("pilotage_cache_evictions", "Files that the live pilots have evicted since their start.", "site"),
		func(s *taskqueue.SiteRecord) float64 { return float64(s.Capacity.Evictions) }},
}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// What this process counts as it happens begins anew with it.

func newAttemptCounts() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "pilotage_attempts_total", Help: "Outcomes of attempts, and why those failed that did.",
	}, []string{"site", "outcome", "reason"})
}

func newEventCounts() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "pilotage_events_total", Help: "What has happened, by kind, as `pilotage events` tells.",
	}, []string{"kind", "site"})
}

func newCommitTimes() prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "pilotage_store_commit_seconds", Help: "Time of a change of the database until its fsync is over, with the wait for others.",
		Buckets: []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10},
	})
}

// refusedOutcomes are outcomes that the queue does not take, by its verdict.
var refusedOutcomes = map[task.AckVerdict]string{task.AckDuplicate: "duplicate", task.AckStale: "rejected", task.AckUnknown: "unknown"}

func countAttempt(counts *prometheus.CounterVec, site task.Site, o *task.Outcome, verdict task.AckVerdict) {
	outcome, reason := "failed", ""
	switch {
	case verdict != task.AckAccepted:
		outcome = refusedOutcomes[verdict]
	case o.OK:
		outcome = "succeeded"
	default:
		reason = o.Failure.String()
	}
	counts.WithLabelValues(string(site), outcome, reason).Inc()
}

const (
	// collectTime bounds one scrape's look into the store.
	collectTime = 10 * time.Second
	// largestClasses are told of by themselves, and countedWorkflows are loaded.
	largestClasses   = 20
	countedWorkflows = 2_000
)

// metrics collects the figures.
type metrics struct{ server *Server }

// scrape is what one look tells.
type scrape chan<- prometheus.Metric

func (s scrape) tell(f figure, value float64, labels ...string) {
	s <- prometheus.MustNewConstMetric(f.about, f.kind, value, labels...)
}

// Describe implements prometheus.Collector. What is told depends on the store.
func (m *metrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(into chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTime)
	defer cancel()
	m.server.storeRequests(ctx)
	s := scrape(into)
	s.tell(metricBuild, 1, m.server.config.Web.Version, runtime.Version())
	strangers := m.server.strangers
	s.tell(metricConnections, float64(strangers.Displaced()), "displaced")
	s.tell(metricConnections, float64(strangers.Cut()), "stranger")
	s.tell(metricConnections, float64(strangers.Heavy()), "heavy")
	err := m.server.turns.view(ctx, func(t *taskqueue.Turn) error {
		sites := taskqueue.Read(t.Sites().All())
		all := taskqueue.SiteSums{Methods: make(map[string]uint64)}
		for i := range sites {
			addSums(&all, &sites[i].Sums)
			m.site(t, s, &sites[i])
		}
		s.sums(&all)
		s.tasks(t)
		s.classes(t)
		return nil
	})
	if err != nil {
		s <- prometheus.NewInvalidMetric(metricReads.about, err)
	}
}

func (m *metrics) site(t *taskqueue.Turn, s scrape, site *taskqueue.SiteRecord) {
	name := string(site.Name)
	sums := site.Sums.Reads()
	for _, source := range task.Sources() {
		s.tell(metricReads, float64(sums.Reads[source]), name, source.String())
		s.tell(metricReadBytes, float64(sums.Bytes[source]), name, source.String())
	}
	for _, figure := range siteFigures {
		s.tell(figure.figure, figure.of(site), name)
	}
	s.tell(metricMode, 1, name, string(site.InForce()))
	s.tell(metricUnheard, oneIf(siteLook(site, t.Clock).Unheard), name)
	s.tell(metricSlots, float64(site.Capacity.FreeSlots), name, "free")
	s.tell(metricSlots, float64(max(0, site.Capacity.Slots-site.Capacity.FreeSlots)), name, "busy")
	s.tell(metricTasks, float64(site.Leased), task.Leased.String(), name)
	draining := taskqueue.Read(t.Pilots().IDsOfSite(site.Name, taskqueue.PilotDraining))
	s.tell(metricPilots, float64(max(0, site.Pilots-len(draining))), name, "alive")
	s.tell(metricPilots, float64(len(draining)), name, "draining")
	s.tell(metricPilots, float64(site.Capacity.Stopped), name, "held")
	waiting, live := m.server.waiting(t, site.Name)
	s.tell(metricDemand, float64(live), name, "yes")
	s.tell(metricDemand, float64(waiting-live), name, "no")
}

// addSums adds what is told without a site.
func addSums(all *taskqueue.SiteSums, sums *taskqueue.SiteSums) {
	all.Duplicates += sums.Duplicates
	all.StaleTerms += sums.StaleTerms
	all.DelayCount += sums.DelayCount
	all.DelaySum += sums.DelaySum
	for method, n := range sums.Methods {
		all.Methods[method] += n
	}
	for i, n := range sums.DelayBucket {
		if i >= len(all.DelayBucket) {
			all.DelayBucket = append(all.DelayBucket, 0)
		}
		all.DelayBucket[i] += n
	}
}

func (s scrape) sums(all *taskqueue.SiteSums) {
	for method, n := range all.Methods {
		s.tell(metricRequests, float64(n), method)
	}
	s.tell(metricDuplicates, float64(all.Duplicates))
	s.tell(metricStale, float64(all.StaleTerms))
	buckets, sum := make(map[float64]uint64, len(taskqueue.DelayBuckets)), uint64(0)
	for i, bound := range taskqueue.DelayBuckets {
		if i < len(all.DelayBucket) {
			sum += all.DelayBucket[i]
		}
		buckets[bound] = sum
	}
	s <- prometheus.MustNewConstHistogram(metricDelay, all.DelayCount, all.DelaySum.Seconds(), buckets)
}

func (s scrape) tasks(t *taskqueue.Turn) {
	newest := taskqueue.Read(t.Workflows().List("", "", "", countedWorkflows))
	counts, uploads := make(map[task.State]int), 0
	for i := range newest {
		for state, n := range newest[i].Counts {
			counts[state] += n
		}
		if !newest[i].Over() {
			uploads += newest[i].Unstored
		}
	}
	for _, state := range []task.State{task.Blocked, task.Ready, task.Done, task.Failed, task.Cancelled, task.Quarantined} {
		s.tell(metricTasks, float64(counts[state]), state.String(), "")
	}
	s.tell(metricUploads, float64(uploads))
}

// classes tells of READY tasks by what they ask for.
func (s scrape) classes(t *taskqueue.Turn) {
	ready := taskqueue.Read(t.Tasks().ReadyClasses())
	interned := taskqueue.Read(t.Files().Classes())
	sums := make(map[string]int)
	for i := range interned {
		if n := ready[interned[i].ID]; n > 0 {
			class := interned[i].Work.Resources.String()
			if require := interned[i].Work.Require; require != "" {
				class += "; " + task.Brief(require)
			}
			sums[class] += n
		}
	}
	names := slices.SortedFunc(maps.Keys(sums), func(x, y string) int { return cmp.Or(cmp.Compare(sums[y], sums[x]), strings.Compare(x, y)) })
	others := 0
	for i, name := range names {
		if i < largestClasses {
			s.tell(metricReady, float64(sums[name]), name)
		} else {
			others += sums[name]
		}
	}
	s.tell(metricReady, float64(others), "others")
}
