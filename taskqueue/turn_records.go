package taskqueue

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
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
	attempts  attemptRecords
	leases    table[task.LeaseID, Lease]
	workflows table[task.WorkflowID, Workflow]
	sites     siteRecords
	pilots    pilotRecords
	usage     table[UsageKey, Usage]
	audit     auditing
}

// attemptRecords are the attempts that a turn knows.
type attemptRecords struct {
	table[task.AttemptID, Attempt]
}

// pilotRecords are the pilots that a turn knows.
type pilotRecords struct {
	table[task.PilotID, PilotRecord]
}

// siteRecords are the sites that a turn knows.
type siteRecords struct {
	table[task.Site, SiteRecord]
	config *Config
	names  []task.Site // of all sites, once loaded
}

func newRecords(t *Turn, config *Config) *records {
	r := &records{Turn: t, config: config, audit: auditing{turn: t}}
	r.tasks = newTable(t, "task", func(t *Turn, keys []task.ID) ([]TaskState, error) { return t.Tasks().Load(keys...) }, func(s *TaskState) task.ID { return s.ID })
	r.specs = newTable(t, "task description", func(t *Turn, keys []task.ID) ([]task.Task, error) { return t.Tasks().Describe(keys...) }, func(s *task.Task) task.ID { return s.ID })
	r.files = newTable(t, "file", func(t *Turn, keys []task.LFN) ([]FileRecord, error) { return t.Files().Load(keys...) }, func(f *FileRecord) task.LFN { return f.LFN })
	r.attempts.table = newTable(t, "attempt", func(t *Turn, keys []task.AttemptID) ([]Attempt, error) { return t.Attempts().Load(keys...) }, func(a *Attempt) task.AttemptID { return a.Outcome.Attempt })
	r.leases = newTable(t, "lease", func(t *Turn, keys []task.LeaseID) ([]Lease, error) { return t.Leases().Load(keys...) }, func(l *Lease) task.LeaseID { return l.ID })
	r.workflows = newTable(t, "workflow", func(t *Turn, keys []task.WorkflowID) ([]Workflow, error) { return t.Workflows().Load(keys...) }, func(w *Workflow) task.WorkflowID { return w.ID })
	r.sites.table = newTable(t, "site", func(t *Turn, keys []task.Site) ([]SiteRecord, error) { return t.Sites().Load(keys...) }, func(s *SiteRecord) task.Site { return s.Name })
	r.sites.config = config
	r.pilots.table = newTable(t, "pilot", func(t *Turn, keys []task.PilotID) ([]PilotRecord, error) { return t.Pilots().Load(keys...) }, func(p *PilotRecord) task.PilotID { return p.ID })
	r.usage = newTable(t, "account", func(t *Turn, keys []UsageKey) ([]Usage, error) { return t.Usage().Load(keys...) }, func(u *Usage) UsageKey { return u.UsageKey })
	return r
}

// standing returns a workflow that is not being cleared away, or ends the turn with an
// error that wraps ErrNotFound.
func (r *records) standing(id task.WorkflowID) *Workflow {
	w := r.workflows.need(id)
	if w.Deleted {
		end(NotFound("workflow", id))
	}
	return w
}

// need returns a site, or ends the turn with an error that wraps ErrNotFound.
func (r *siteRecords) need(name task.Site) *SiteRecord {
	s := r.one(name)
	if s == nil {
		end(fmt.Errorf("site %s: %w: `pilotage site list` names the sites, `pilotage site add %s` adds it", name, ErrNotFound, name))
	}
	return s
}

// loadAll loads all sites.
func (r *siteRecords) loadAll() {
	if r.names == nil {
		all := read(r.turn.Sites().All())
		r.names = keysOf(all, func(s *SiteRecord) task.Site { return s.Name })
		r.hold(all)
	}
}

// all are all sites, by name.
func (r *siteRecords) all() iter.Seq[*SiteRecord] {
	r.loadAll()
	return func(yield func(*SiteRecord) bool) {
		for _, name := range r.names {
			if !yield(r.held[name]) {
				return
			}
		}
	}
}

// at returns a pilot of a site, or ends the turn with an error that wraps ErrNotFound.
func (r *pilotRecords) at(site task.Site, id task.PilotID) *PilotRecord {
	pilot := r.one(id)
	if pilot == nil || pilot.Site != site {
		end(NotFound("pilot", id))
	}
	return pilot
}

// recall reads a value that ticks and submissions keep under a name; false if there is
// none.
func recall(meta MetaTable, name string, value any) bool {
	text := read(meta.Get(name))
	if len(text) == 0 {
		return false
	}
	if err := json.Unmarshal(text, value); err != nil {
		end(fmt.Errorf("the value %q is damaged: %w", name, err))
	}
	return true
}

// remember writes such a value.
func remember(meta MetaTable, name string, value any) {
	check(meta.Set(name, read(json.Marshal(value))))
}

// rememberList writes a list, or removes it where it is empty.
func rememberList[T any](meta MetaTable, name string, list []T) {
	if len(list) == 0 {
		check(meta.Set(name, nil))
	} else {
		remember(meta, name, list)
	}
}

// randomBytes returns n bytes of randomness.
func randomBytes(random Random, n int) []byte {
	var bytes []byte
	for len(bytes) < n {
		bytes = binary.LittleEndian.AppendUint64(bytes, random.Uint64())
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
	r.audit.save()
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
