package taskqueue

import (
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// UsageKey says whose use of what it is, and when.
type UsageKey struct {
	Day   string // in UTC, as 2026-11-24, by the queue's clock for people
	Owner string // of the workflow
	Site  task.Site
}

// Usage sums what attempts have used whose outcomes were judged, each once. It outlives
// their workflows.
type Usage struct {
	UsageKey `record:"inline"`

	Tasks    uint64 // accepted successes
	Failures uint64
	CPU      time.Duration
	Wall     time.Duration
	Wasted   time.Duration // of Wall, by attempts that have failed or counted for nothing
	Bytes    [4]uint64     // read, by task.Source
}

// use adds an outcome that was judged to the accounts; useful tells that its task is
// done by it.
func (j *judgement) use(o *task.Outcome, useful bool) {
	key := UsageKey{Day: j.Wall.UTC().Format(time.DateOnly), Owner: j.workflows.need(o.Attempt.Task.Workflow()).Owner, Site: j.site.Name}
	u := j.usage.one(key)
	if u == nil {
		u = &Usage{UsageKey: key}
		j.usage.put(key, u)
	}
	j.usage.touch(key)
	wall := max(0, o.Run)
	u.CPU += max(0, o.Usage.UserCPU) + max(0, o.Usage.SystemCPU)
	u.Wall += wall
	switch {
	case useful:
		u.Tasks++
	case !o.OK:
		u.Failures++
		fallthrough
	default:
		u.Wasted += wall
	}
	for i := range o.Reads {
		if from := int(o.Reads[i].Source); from < len(u.Bytes) {
			u.Bytes[from] += uint64(max(0, o.Reads[i].Size))
		}
	}
}
