package server

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// What the queue tells besides its sites' sums. Counters begin anew with the queue.
var (
	metricTasks = prometheus.NewDesc("pilotage_tasks",
		"Tasks of the newest 2,000 workflows by state; LEASED ones by site, too.", []string{"state", "site"}, nil)
	metricReady = prometheus.NewDesc("pilotage_ready_tasks",
		"READY tasks by what they ask of a pilot: the 20 largest classes, and the others.", []string{"class"}, nil)
	metricDemand = prometheus.NewDesc("pilotage_demand_tasks",
		"Tasks that wait for a site's pilots, and whether a live one can run them; each counts once among its sites.", []string{"site", "live"}, nil)
	metricPilots = prometheus.NewDesc("pilotage_pilots",
		"Pilots by state (alive, draining, held: they take no new work).", []string{"site", "state"}, nil)
	metricAttempts = prometheus.NewDesc("pilotage_attempts_total",
		"Outcomes of attempts, and why those failed that did.", []string{"site", "outcome", "reason"}, nil)
	metricEvents = prometheus.NewDesc("pilotage_events_total",
		"What has happened, by kind, as `pilotage events` tells.", []string{"kind", "site"}, nil)
	metricCache = prometheus.NewDesc("pilotage_cache_bytes",
		"Room in the caches of the live pilots.", []string{"site"}, nil)
	metricCacheUsed = prometheus.NewDesc("pilotage_cache_used_bytes",
		"Bytes in the caches of the live pilots.", []string{"site"}, nil)
	metricEvictions = prometheus.NewDesc("pilotage_cache_evictions",
		"Files that the live pilots have evicted since their start.", []string{"site"}, nil)
	metricUploads = prometheus.NewDesc("pilotage_uploads_pending",
		"Final outputs of the newest 2,000 workflows that are on no storage element yet.", nil, nil)
	metricUnheard = prometheus.NewDesc("pilotage_site_unheard",
		"1 while the master of a site with pilots is not heard.", []string{"site"}, nil)
	metricCommit = prometheus.NewDesc("pilotage_store_commit_seconds",
		"Time of a change of the database until its fsync is over, with the wait for others.", nil, nil)
	metricBuild = prometheus.NewDesc("pilotage_build_info",
		"Always 1.", []string{"version", "go"}, nil)
)

// largestClasses are told of by themselves, and countedWorkflows are loaded.
const (
	largestClasses   = 20
	countedWorkflows = 2_000
)

// commitBounds are upper bounds, in seconds, of the buckets of commitTimes.
var commitBounds = [...]float64{.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10}

// commitTimes is how long changes of the store have taken.
type commitTimes struct {
	buckets [len(commitBounds) + 1]atomic.Uint64
	sum     atomic.Int64 // nanoseconds
}

func (c *commitTimes) observe(d time.Duration) {
	at, _ := slices.BinarySearch(commitBounds[:], d.Seconds())
	c.buckets[at].Add(1)
	c.sum.Add(int64(d))
}

func (c *commitTimes) metric() prometheus.Metric {
	buckets, count := make(map[float64]uint64, len(commitBounds)), uint64(0)
	for i := range c.buckets {
		count += c.buckets[i].Load()
		if i < len(commitBounds) {
			buckets[commitBounds[i]] = count
		}
	}
	return prometheus.MustNewConstHistogram(metricCommit, count, time.Duration(c.sum.Load()).Seconds(), buckets)
}

// queueMetrics shows what the queue holds and what has happened.
type queueMetrics struct{ server *Server }

// Describe implements prometheus.Collector.
func (m *queueMetrics) Describe(descriptions chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		metricTasks, metricReady, metricDemand, metricPilots, metricAttempts, metricEvents, metricCache, metricCacheUsed, metricEvictions, metricUploads,
		metricUnheard, metricCommit, metricBuild,
	} {
		descriptions <- d
	}
}

// Collect implements prometheus.Collector.
func (m *queueMetrics) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTime)
	defer cancel()
	add := func(d *prometheus.Desc, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	add(metricBuild, 1, m.server.config.Web.Version, runtime.Version())
	metrics <- m.server.turns.commits.metric()
	for key, n := range m.server.shown.counts.all() {
		metrics <- prometheus.MustNewConstMetric(metricAttempts, prometheus.CounterValue, float64(n), string(key.site), key.outcome, key.reason)
	}
	for key, n := range m.server.shown.events.counted() {
		metrics <- prometheus.MustNewConstMetric(metricEvents, prometheus.CounterValue, float64(n), string(key.kind), string(key.site))
	}
	err := m.server.turns.view(ctx, func(t *taskqueue.Turn) error {
		if err := collectTasks(t, add); err != nil {
			return err
		}
		return m.collectPilots(t, add)
	})
	if err != nil {
		metrics <- prometheus.NewInvalidMetric(metricTasks, err)
	}
}

type addMetric func(d *prometheus.Desc, value float64, labels ...string)

func collectTasks(t *taskqueue.Turn, add addMetric) error {
	newest, err := t.Workflows().List("", "", "", countedWorkflows)
	if err != nil {
		return fmt.Errorf("list workflows: %w", err)
	}
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
		add(metricTasks, float64(counts[state]), state.String(), "")
	}
	add(metricUploads, float64(uploads))
	return collectClasses(t, add)
}

// collectClasses tells of READY tasks by what they ask for.
func collectClasses(t *taskqueue.Turn, add addMetric) error {
	ready, err := t.Tasks().ReadyClasses()
	if err != nil {
		return fmt.Errorf("count READY tasks: %w", err)
	}
	interned, err := t.Files().Classes()
	if err != nil {
		return fmt.Errorf("load classes: %w", err)
	}
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
	names := make([]string, 0, len(sums))
	for name := range sums {
		names = append(names, name)
	}
	slices.SortFunc(names, func(x, y string) int { return cmp.Or(cmp.Compare(sums[y], sums[x]), strings.Compare(x, y)) })
	others := 0
	for i, name := range names {
		if i < largestClasses {
			add(metricReady, float64(sums[name]), name)
		} else {
			others += sums[name]
		}
	}
	add(metricReady, float64(others), "others")
	return nil
}

func (m *queueMetrics) collectPilots(t *taskqueue.Turn, add addMetric) error {
	sites, err := t.Sites().All()
	if err != nil {
		return fmt.Errorf("load sites: %w", err)
	}
	for i := range sites {
		site := &sites[i]
		name := string(site.Name)
		draining, err := t.Pilots().IDsOfSite(site.Name, taskqueue.PilotDraining)
		if err != nil {
			return fmt.Errorf("list pilots of %s: %w", site.Name, err)
		}
		waiting, live, err := m.server.waiting(t, site.Name)
		if err != nil {
			return err
		}
		add(metricDemand, float64(live), name, "yes")
		add(metricDemand, float64(waiting-live), name, "no")
		add(metricTasks, float64(site.Leased), task.Leased.String(), name)
		add(metricPilots, float64(max(0, site.Pilots-len(draining))), name, "alive")
		add(metricPilots, float64(len(draining)), name, "draining")
		add(metricPilots, float64(site.Capacity.Stopped), name, "held")
		add(metricCache, float64(site.Capacity.CacheBytes), name)
		add(metricCacheUsed, float64(site.Capacity.CacheUsed), name)
		add(metricEvictions, float64(site.Capacity.Evictions), name)
		unheard := 0.0
		if siteLook(site, t.Clock).Unheard {
			unheard = 1
		}
		add(metricUnheard, unheard, name)
	}
	return nil
}
