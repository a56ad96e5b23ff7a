package bench

import (
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// OverlayResult is what `pilotage bench overlay` reports.
type OverlayResult struct {
	OverlayRun
	OverlayTimes
	OverlayRequests
	OverlayDelays
	Cache CacheFigures `json:"cache"`
	// Rounds is nil where none was seen: without a site's master, and from outside
	// of pilots that are processes.
	Rounds *RoundFigures `json:"rounds"`
	// Traffic is nil where pilots are processes.
	Traffic *TrafficFigures   `json:"traffic"`
	Master  MastershipFigures `json:"master"`
	OverlayLosses
	OverlayUsage
	Place
}

// OverlayRun is what was run.
type OverlayRun struct {
	Pilots      int       `json:"pilots"`
	Sites       int       `json:"sites"`
	Tasks       int       `json:"tasks"`
	Mode        string    `json:"mode"`
	Workflow    Pattern   `json:"workflow"`
	Seed        uint64    `json:"seed"`
	Transport   Transport `json:"transport"`
	TaskSeconds float64   `json:"task_seconds"`
	RoundPeriod float64   `json:"round_period_seconds"`
	Prefill     int       `json:"prefill"`
	// LocalityWait is what was set; without, it is the queue's default.
	LocalityWait *float64   `json:"locality_wait_seconds,omitempty"`
	FileSize     task.Bytes `json:"file_bytes"`
	CacheFiles   int        `json:"cache_files"`
	CacheShare   float64    `json:"cache_share,omitempty"`
	KillRate     float64    `json:"kill_rate"`
	// KillMasters and HangMasters are how many masters were to be taken away, if
	// the work lasts for long enough.
	KillMasters int `json:"kill_masters"`
	HangMasters int `json:"hang_masters"`
}

// OverlayTimes are those of the run as a whole.
type OverlayTimes struct {
	JoinSeconds   float64 `json:"join_seconds"`
	SubmitSeconds float64 `json:"submit_seconds"`
	// Makespan is from the first submission to the last outcome on disk.
	Makespan float64 `json:"makespan_seconds"`
	// FirstFill is from the first submission, when all pilots are there, until
	// every slot that got work has started its first payload; FilledSlots is
	// how many did.
	FirstFill   float64 `json:"first_fill_seconds"`
	FilledSlots int     `json:"filled_slots"`
}

// OverlayRequests are what the queue was asked.
type OverlayRequests struct {
	// Requests are all calls and stream messages between the queue and pilots,
	// from the first registration to the last leave.
	Requests         float64            `json:"tq_requests_total"`
	RequestsPerTask  float64            `json:"tq_requests_per_task"`
	RequestsByMethod map[string]float64 `json:"tq_requests_by_method"`
	// RequestsBesideJoining are those per task but for registrations and
	// leaves, from the first submission to the workflow's end.
	RequestsBesideJoining float64 `json:"tq_requests_per_task_beside_join_and_leave"`
	QueueLengthMax        int     `json:"tq_queue_length_max"`
}

// OverlayDelays are times in which a slot, or a task, waited.
type OverlayDelays struct {
	// InterTaskDelay: exit of one payload to the start of the next on its slot,
	// where that one was at the site already; the share of slot changes that
	// these are.
	InterTaskDelay Distribution `json:"inter_task_delay_seconds"`
	DelayShare     float64      `json:"inter_task_delay_share"`
	// SlotChange: the same between any two payloads of a slot, where all inputs
	// of the second existed when the first one ended, wherever it waited.
	SlotChange      Distribution `json:"slot_change_seconds"`
	SlotChangeShare float64      `json:"slot_change_share"`
	// DependencyDelay: end of the last task that a task waited for to its
	// start, where its slot was free before.
	DependencyDelay Distribution `json:"dependency_delay_seconds"`
	DependencyShare float64      `json:"dependency_delay_share"`
}

// OverlayLosses are what went wrong, by intent or not.
type OverlayLosses struct {
	Killed    int `json:"killed_pilots"`
	LostTasks int `json:"lost_tasks"`
	// Lost says of some tasks that did not end DONE how they ended, and why.
	Lost       []string `json:"lost_tasks_why,omitempty"`
	Duplicates int      `json:"duplicate_outcomes"`
}

// OverlayUsage is what was used: CPU by the queue and all pilots, and their resident
// memory at the end.
type OverlayUsage struct {
	CPU      float64 `json:"cpu_seconds"`
	QueueCPU float64 `json:"queue_cpu_seconds"`
	RSS      int64   `json:"rss_bytes"`
	QueueRSS int64   `json:"queue_rss_bytes"`
}

// CacheFigures count reads of files that tasks of the run have made, by where
// the bytes were when the reading task was assigned.
type CacheFigures struct {
	Local     int     `json:"reads_local"`
	Peer      int     `json:"reads_peer"`
	SE        int     `json:"reads_se"`
	TotalHits float64 `json:"total_hit_ratio"`
	LocalHits float64 `json:"local_hit_ratio"`
	// BestLocalHits is the local hit ratio if each reading task had run where
	// most of its inputs were made, with caches that never evict: with finite ones
	// no more than a bound.
	BestLocalHits float64 `json:"local_hit_ratio_best_possible"`
	// WorkingSet is how many different files a pilot has made or read, the mean of
	// those that ran something.
	WorkingSet float64 `json:"working_set_files"`
	// Capacity is that of each cache by the working set; 0: it holds all.
	Capacity  float64 `json:"capacity_by_working_set"`
	Evictions uint64  `json:"evictions"`
}

// RoundFigures are about broadcasts of the task list.
type RoundFigures struct {
	Count int `json:"count"`
	// CoverageMin is the least share of the members that answered one.
	CoverageMin float64 `json:"coverage_min"`
	// PeersMax is the most peers that one pilot sent one round to, its repair
	// apart.
	PeersMax   int     `json:"peers_per_node_max"`
	LatencyP50 float64 `json:"latency_p50"`
	LatencyP99 float64 `json:"latency_p99"`
	// BytesPerPilot is what pilots sent to each other in the run (everything,
	// also locations, assignments and outcomes), by pilot and round.
	BytesPerPilot float64 `json:"bytes_per_pilot"`
}

// TrafficFigures are about what pilots say to each other.
type TrafficFigures struct {
	// Searches are those for the pilots that hold files which a task is about to read;
	// SearchTime is how long they took.
	Searches   int          `json:"location_lookups"`
	SearchTime Distribution `json:"location_lookup_seconds"`
	// MessagesPerTask are those of the run by kind: membership (of the site and its
	// master), location, round (with tasks, outcomes, beats), kad (of kad-dht), probe.
	// Nobody counts them over TCP.
	MessagesPerTask map[string]float64 `json:"messages_per_task,omitempty"`
}

// MastershipFigures are about changes of master.
type MastershipFigures struct {
	Changes int `json:"changes"`
	// Killed and Hung are the masters that were taken away on purpose.
	Killed int `json:"killed"`
	Hung   int `json:"hung"`
	// Failover is the longest time from the kill or stop of a master until
	// another pilot of its site took office, or until the end of the work for
	// those that were Unfinished then; Failovers are the finished ones, and apart
	// those after kills and after stops.
	Failover        float64      `json:"failover_seconds_max"`
	Failovers       Distribution `json:"failover_seconds"`
	FailoversKilled Distribution `json:"failover_killed_seconds"`
	FailoversHung   Distribution `json:"failover_hung_seconds"`
	Unfinished      int          `json:"failovers_unfinished"`
}

// countRequests takes all calls of the run.
func (r *OverlayResult) countRequests(byMethod map[string]float64) {
	r.RequestsByMethod = byMethod
	for _, count := range byMethod {
		r.Requests += count
	}
	r.RequestsPerTask = r.Requests / float64(r.Tasks)
}

// countBesideJoining takes the calls between submission and end.
func (r *OverlayResult) countBesideJoining(before, after map[string]float64) {
	calls := 0.0
	for method, count := range after {
		if method != "Register" && method != "Leave" {
			calls += count - before[method]
		}
	}
	r.RequestsBesideJoining = calls / float64(r.Tasks)
}

func (r *OverlayResult) countUsage(queue *queueProcess, pilots fleet, queueBefore, pilotsBefore time.Duration) error {
	queueAfter, queueRSS, err := queue.usage()
	if err != nil {
		return err
	}
	pilotsAfter, pilotsRSS, err := pilots.usage()
	if err != nil {
		return err
	}
	r.QueueCPU, r.QueueRSS = (queueAfter - queueBefore).Seconds(), queueRSS
	r.CPU, r.RSS = r.QueueCPU+(pilotsAfter-pilotsBefore).Seconds(), queueRSS+pilotsRSS
	return nil
}
