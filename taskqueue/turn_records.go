package taskqueue

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/pilotage-grid/pilotage/task"
)

// records is the working copy of one turn: records are loaded in sets, changed in
// memory, and saved in sets at the end. It answers what several parts ask of them,
// and decides nothing.
type records struct {
	*Turn
	config *Config

	tasks     table[task.ID, TaskState]
	specs     table[task.ID, task.Task]
	entered   []task.ID // new tasks, in both tables and not in the store yet
	files     table[task.LFN, FileRecord]
	attempts  table[task.AttemptID, Attempt]
	leases    table[task.LeaseID, Lease]
	workflows table[task.WorkflowID, Workflow]
	sites     table[task.Site, SiteRecord]
	pilots    table[task.PilotID, PilotRecord]
	usage     table[UsageKey, Usage]

	siteNames []task.Site // of all sites, once loaded
	audited   []AuditEntry
}

func newRecords(t *Turn, config *Config) *records {
	r := &records{Turn: t, config: config}
	r.tasks = newTable(t, "tasks", func(t *Turn, keys []task.ID) ([]TaskState, error) { return t.Tasks().Load(keys...) }, func(s *TaskState) task.ID { return s.ID })
	r.specs = newTable(t, "task descriptions", func(t *Turn, keys []task.ID) ([]task.Task, error) { return t.Tasks().Describe(keys...) }, func(s *task.Task) task.ID { return s.ID })
	r.files = newTable(t, "files", func(t *Turn, keys []task.LFN) ([]FileRecord, error) { return t.Files().Load(keys...) }, func(f *FileRecord) task.LFN { return f.LFN })
	r.attempts = newTable(t, "attempts", func(t *Turn, keys []task.AttemptID) ([]Attempt, error) { return t.Attempts().Load(keys...) }, func(a *Attempt) task.AttemptID { return a.Outcome.Attempt })
	r.leases = newTable(t, "leases", func(t *Turn, keys []task.LeaseID) ([]Lease, error) { return t.Leases().Load(keys...) }, func(l *Lease) task.LeaseID { return l.ID })
	r.workflows = newTable(t, "workflows", func(t *Turn, keys []task.WorkflowID) ([]Workflow, error) { return t.Workflows().Load(keys...) }, func(w *Workflow) task.WorkflowID { return w.ID })
	r.sites = newTable(t, "sites", func(t *Turn, keys []task.Site) ([]SiteRecord, error) { return t.Sites().Load(keys...) }, func(s *SiteRecord) task.Site { return s.Name })
	r.pilots = newTable(t, "pilots", func(t *Turn, keys []task.PilotID) ([]PilotRecord, error) { return t.Pilots().Load(keys...) }, func(p *PilotRecord) task.PilotID { return p.ID })
	r.usage = newTable(t, "accounts", func(t *Turn, keys []UsageKey) ([]Usage, error) { return t.Usage().Load(keys...) }, func(u *Usage) UsageKey { return u.UsageKey })
	return r
}

// workflow returns a workflow, or ends the turn with an error that wraps ErrNotFound.
func (r *records) workflow(id task.WorkflowID) *Workflow {
	w := r.workflows.one(id)
	if w == nil {
		end(NotFound("workflow", id))
	}
	return w
}

// standing returns a workflow that is not being cleared away, or ends the turn with an
// error that wraps ErrNotFound.
func (r *records) standing(id task.WorkflowID) *Workflow {
	w := r.workflow(id)
	if w.Deleted {
		end(NotFound("workflow", id))
	}
	return w
}

// task returns a task, or ends the turn with an error that wraps ErrNotFound.
func (r *records) task(id task.ID) *TaskState {
	s := r.tasks.one(id)
	if s == nil {
		end(NotFound("task", id))
	}
	return s
}

// site returns a site, or ends the turn with an error that wraps ErrNotFound.
func (r *records) site(name task.Site) *SiteRecord {
	s := r.sites.one(name)
	if s == nil {
		end(fmt.Errorf("site %s: %w: `pilotage site list` names the sites, `pilotage site add %s` adds it", name, ErrNotFound, name))
	}
	return s
}

// pilot returns a pilot and its site, or ends the turn with an error that wraps
// ErrNotFound.
func (r *records) pilot(id task.PilotID) (*PilotRecord, *SiteRecord) {
	pilot := r.pilots.one(id)
	if pilot == nil {
		end(NotFound("pilot", id))
	}
	return pilot, r.site(pilot.Site)
}

// pilotOf returns a pilot of a site, or ends the turn with an error that wraps
// ErrNotFound.
func (r *records) pilotOf(site task.Site, id task.PilotID) *PilotRecord {
	pilot := r.pilots.one(id)
	if pilot == nil || pilot.Site != site {
		end(NotFound("pilot", id))
	}
	return pilot
}

// loadSites loads all sites; siteNames lists them.
func (r *records) loadSites() {
	if r.siteNames != nil {
		return
	}
	all := read(r.Sites().All())
	r.siteNames = keysOf(all, func(s *SiteRecord) task.Site { return s.Name })
	r.sites.hold(all)
}

// remembered reads a value that ticks and submissions keep under a name; false if there is
// none.
func (r *records) remembered(name string, value any) bool {
	text := read(r.Meta().Get(name))
	if len(text) == 0 {
		return false
	}
	if err := json.Unmarshal(text, value); err != nil {
		end(fmt.Errorf("the value %q is damaged: %w", name, err))
	}
	return true
}

// remember writes such a value.
func (r *records) remember(name string, value any) {
	check(r.Meta().Set(name, read(json.Marshal(value))))
}

// rememberList writes a list, or removes it where it is empty.
func rememberList[T any](r *records, name string, list []T) {
	if len(list) == 0 {
		r.drop(name)
	} else {
		r.remember(name, list)
	}
}

// drop removes such a value.
func (r *records) drop(name string) { check(r.Meta().Set(name, nil)) }

// randomBytes returns n bytes of the turn's randomness.
func (r *records) randomBytes(n int) []byte {
	var bytes []byte
	for len(bytes) < n {
		bytes = binary.LittleEndian.AppendUint64(bytes, r.Random.Uint64())
	}
	return bytes[:n]
}

// save writes what changed but leases and revocations; the working copy stays usable.
func (r *records) save() {
	for _, id := range r.workflows.order {
		r.Effects.progress(id)
	}
	saveAll(r.workflows.take(), r.Workflows().Save)
	r.saveTasks()
	saveAll(r.files.take(), r.Files().Save)
	saveAll(r.attempts.take(), r.Attempts().Save)
	saveAll(r.sites.take(), r.Sites().Save)
	saveAll(r.pilots.take(), r.Pilots().Save)
	saveAll(r.usage.take(), r.Usage().Save)
	r.saveAudit()
}

// saveTasks writes each task once: a new one with its description, of the
// others the state.
func (r *records) saveTasks() {
	changed, entered := r.tasks.take(), r.entered
	r.entered = nil
	if len(entered) == 0 {
		saveAll(changed, r.Tasks().Save)
		return
	}
	specs, states := make([]task.Task, len(entered)), make([]TaskState, len(entered))
	fresh := make(map[task.ID]struct{}, len(entered))
	for i, id := range entered {
		specs[i], states[i] = *r.specs.held[id], *r.tasks.held[id]
		fresh[id] = struct{}{}
	}
	err := r.Tasks().Add(specs, states)
	if errors.Is(err, ErrTaskExists) {
		err = invalid("two tasks of the workflow have the same name: %w", err)
	}
	check(err)
	saveAll(slices.DeleteFunc(changed, func(s TaskState) bool {
		_, added := fresh[s.ID]
		return added
	}), r.Tasks().Save)
}

// forget drops the copies of tasks and files after a save, so that a long
// sweep does not grow.
func (r *records) forget() {
	r.tasks.clear()
	r.specs.clear()
	r.files.clear()
	r.attempts.clear()
}
