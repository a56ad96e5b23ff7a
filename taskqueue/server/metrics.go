package server

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// siteMetrics collects what the site records hold: they are durable, so
// counters do not fall when a server restarts.
type siteMetrics struct{ server *Server }

// The names are an interface (INTERFACE, "Places and names").
var (
	metricReads = prometheus.NewDesc("pilotage_reads_total",
		"Inputs read by attempts, by where the bytes were at assignment.", []string{"site", "source"}, nil)
	metricReadBytes = prometheus.NewDesc("pilotage_read_bytes_total",
		"Bytes of inputs read by attempts, by where they were at assignment.", []string{"site", "source"}, nil)
	metricSaved = prometheus.NewDesc("pilotage_se_bytes_saved_total",
		"Bytes read from own and peers' caches instead of a storage element.", []string{"site"}, nil)
	metricReplicas = prometheus.NewDesc("pilotage_replicas_total",
		"Copies of files that replica policies have had made.", []string{"site"}, nil)
	metricReplicaBytes = prometheus.NewDesc("pilotage_replica_bytes_total",
		"Bytes of the copies that replica policies have had made.", []string{"site"}, nil)
	metricDamaged = prometheus.NewDesc("pilotage_cache_damaged_files",
		"Cached files that had rotted on the disks of the live pilots since their start.", []string{"site"}, nil)
	metricSetBack = prometheus.NewDesc("pilotage_nodes_set_back",
		"Worker nodes that get no tasks, or one on trial, because tasks fail there that do not elsewhere.", []string{"site"}, nil)
	metricMode = prometheus.NewDesc("pilotage_site_mode",
		"1 for the mode by which a site schedules now.", []string{"site", "mode"}, nil)
	metricFallback = prometheus.NewDesc("pilotage_site_fallen_back",
		"1 while a site works isolated because its pilots do not reach one another.", []string{"site"}, nil)
	metricSlots = prometheus.NewDesc("pilotage_slots",
		"Slots of the live pilots, by state (free, busy).", []string{"site", "state"}, nil)
	metricRequests = prometheus.NewDesc("pilotage_queue_requests_total",
		"Calls and stream messages between the queue and pilots.", []string{"method"}, nil)
	metricDelay = prometheus.NewDesc("pilotage_inter_task_delay_seconds",
		"End of one payload on a slot to the start of the next.", nil, nil)
	metricTerm = prometheus.NewDesc("pilotage_master_term",
		"Epoch of the mastership in office.", []string{"site"}, nil)
	metricMasters = prometheus.NewDesc("pilotage_master_changes_total",
		"Masterships that followed a site's first one.", []string{"site"}, nil)
	metricDuplicates = prometheus.NewDesc("pilotage_duplicate_outcomes_total",
		"Outcomes of attempts whose task another attempt had won.", nil, nil)
	metricConnections = prometheus.NewDesc("pilotage_refused_connections_total",
		"Connections that the queue closed: displaced by newer ones, of a stranger who stayed too long or sent too much, or heavy, as its calls brought too much.", []string{"why"}, nil)
	metricStale = prometheus.NewDesc("pilotage_stale_term_rejects_total",
		"Calls of masters that were no longer in office.", nil, nil)
)

// collectTime bounds one scrape's look into the store.
const collectTime = 10 * time.Second

// Describe implements prometheus.Collector.
func (m *siteMetrics) Describe(descriptions chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		metricReads, metricReadBytes, metricSaved, metricReplicas, metricReplicaBytes, metricDamaged, metricSetBack, metricMode, metricFallback, metricSlots, metricRequests,
		metricDelay, metricTerm, metricMasters, metricDuplicates, metricConnections, metricStale,
	} {
		descriptions <- d
	}
}

// Collect implements prometheus.Collector.
func (m *siteMetrics) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTime)
	defer cancel()
	m.server.storeRequests(ctx)
	sites, err := seen(ctx, m.server.turns, func(t *taskqueue.Turn) ([]taskqueue.SiteRecord, error) { return t.Sites().All() })
	if err != nil {
		metrics <- prometheus.NewInvalidMetric(metricReads, err)
		return
	}
	all := taskqueue.SiteSums{Methods: make(map[string]uint64)}
	for i := range sites {
		collectSite(metrics, &sites[i])
		addSums(&all, &sites[i].Sums)
	}
	counter := func(d *prometheus.Desc, value uint64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
	}
	for method, n := range all.Methods {
		counter(metricRequests, n, method)
	}
	counter(metricDuplicates, all.Duplicates)
	counter(metricStale, all.StaleTerms)
	counter(metricConnections, m.server.strangers.Displaced(), "displaced")
	counter(metricConnections, m.server.strangers.Cut(), "stranger")
	counter(metricConnections, m.server.strangers.Heavy(), "heavy")
	buckets := make(map[float64]uint64, len(taskqueue.DelayBuckets))
	sum := uint64(0)
	for i, bound := range taskqueue.DelayBuckets {
		if i < len(all.DelayBucket) {
			sum += all.DelayBucket[i]
		}
		buckets[bound] = sum
	}
	metrics <- prometheus.MustNewConstHistogram(metricDelay, all.DelayCount, all.DelaySum.Seconds(), buckets)
}

func collectSite(metrics chan<- prometheus.Metric, site *taskqueue.SiteRecord) {
	name := string(site.Name)
	add := func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(d, kind, value, append([]string{name}, labels...)...)
	}
	sums := &site.Sums
	for _, source := range task.Sources() {
		reads := sums.Intermediate.Reads[source] + sums.External.Reads[source]
		bytes := sums.Intermediate.Bytes[source] + sums.External.Bytes[source]
		add(metricReads, prometheus.CounterValue, float64(reads), source.String())
		add(metricReadBytes, prometheus.CounterValue, float64(bytes), source.String())
	}
	saved := uint64(0)
	for _, source := range []task.Source{task.SourceLocal, task.SourcePeer} {
		saved += sums.Intermediate.Bytes[source] + sums.External.Bytes[source]
	}
	add(metricSaved, prometheus.CounterValue, float64(saved))
	add(metricReplicas, prometheus.CounterValue, float64(sums.Replicas.Files))
	add(metricReplicaBytes, prometheus.CounterValue, float64(sums.Replicas.Bytes))
	add(metricDamaged, prometheus.GaugeValue, float64(site.Capacity.Damaged))
	add(metricSetBack, prometheus.GaugeValue, float64(len(site.Nodes)))
	add(metricMode, prometheus.GaugeValue, 1, string(site.InForce()))
	fallen := 0.0
	if site.Fallback != "" {
		fallen = 1
	}
	add(metricFallback, prometheus.GaugeValue, fallen)
	add(metricSlots, prometheus.GaugeValue, float64(site.Capacity.FreeSlots), "free")
	add(metricSlots, prometheus.GaugeValue, float64(max(0, site.Capacity.Slots-site.Capacity.FreeSlots)), "busy")
	add(metricTerm, prometheus.GaugeValue, float64(site.Term.Epoch))
	changes := site.Term.Epoch
	if changes > 0 {
		changes--
	}
	add(metricMasters, prometheus.CounterValue, float64(changes))
}

// addSums adds what is reported without a site.
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
