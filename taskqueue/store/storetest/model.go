package storetest

import (
	"cmp"
	"context"
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// model is the obvious store: slices that are copied for every Update and searched
// from end to end. It is what the random tests hold an engine against; it does not guard
// its records against their users.
type model struct {
	mutex sync.Mutex
	state *contents
}

type contents struct {
	values    map[string][]byte
	counters  map[string]uint64
	workflows rows[task.WorkflowID, taskqueue.Workflow]
	tasks     rows[task.ID, modelTask]
	files     rows[task.LFN, taskqueue.FileRecord]
	uses      rows[modelUse, modelUse]
	classes   rows[taskqueue.ClassID, taskqueue.Eligibility]
	garbage   rows[task.Replica, task.Replica]
	attempts  rows[task.AttemptID, taskqueue.Attempt]
	logs      rows[task.AttemptID, modelLog]
	leases    rows[task.LeaseID, taskqueue.Lease]
	revoked   rows[taskqueue.Revocation, taskqueue.Revocation] // by the record without Pilot and Cancel
	sites     rows[task.Site, taskqueue.SiteRecord]
	pilots    rows[task.PilotID, taskqueue.PilotRecord]
	grants    rows[string, taskqueue.Grant]
	usage     rows[taskqueue.UsageKey, taskqueue.Usage]
	audit     rows[uint64, taskqueue.AuditRecord]
}

type modelTask struct {
	description task.Task
	state       taskqueue.TaskState
}

type modelUse struct {
	file   task.LFN
	reader task.ID
}

type modelLog struct {
	of             task.AttemptID
	stdout, stderr []byte
}

func newModel() *model {
	return &model{state: &contents{
		values: map[string][]byte{}, counters: map[string]uint64{},
		workflows: keyed(flowOf),
		tasks:     keyed(func(t modelTask) task.ID { return t.state.ID }),
		files:     keyed(lfnOf),
		uses:      keyed(itself[modelUse]),
		classes:   keyed(func(e taskqueue.Eligibility) taskqueue.ClassID { return e.ID }),
		garbage:   keyed(itself[task.Replica]),
		attempts:  keyed(func(a taskqueue.Attempt) task.AttemptID { return a.Outcome.Attempt }),
		logs:      keyed(func(l modelLog) task.AttemptID { return l.of }),
		leases:    keyed(func(l taskqueue.Lease) task.LeaseID { return l.ID }),
		revoked:   keyed(plain),
		sites:     keyed(func(s taskqueue.SiteRecord) task.Site { return s.Name }),
		pilots:    keyed(pilotOf),
		grants:    keyed(func(g taskqueue.Grant) string { return g.ID }),
		usage:     keyed(func(u taskqueue.Usage) taskqueue.UsageKey { return u.UsageKey }),
		audit:     keyed(func(a taskqueue.AuditRecord) uint64 { return a.At }),
	}}
}

func itself[T any](record T) T { return record }

func plain(r taskqueue.Revocation) taskqueue.Revocation {
	r.Pilot, r.Cancel = "", false
	return r
}

func (s *contents) copy() *contents {
	return &contents{
		maps.Clone(s.values), maps.Clone(s.counters), s.workflows.copy(), s.tasks.copy(), s.files.copy(), s.uses.copy(), s.classes.copy(),
		s.garbage.copy(), s.attempts.copy(), s.logs.copy(), s.leases.copy(), s.revoked.copy(), s.sites.copy(), s.pilots.copy(),
		s.grants.copy(), s.usage.copy(), s.audit.copy(),
	}
}

func (m *model) View(_ context.Context, read func(taskqueue.Tx) error) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return read(modelTx{m.state, m.state})
}

func (m *model) Update(_ context.Context, write func(taskqueue.Tx) error) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	next := m.state.copy()
	if err := write(modelTx{next, m.state}); err != nil {
		return err
	}
	m.state = next
	return nil
}

func (m *model) Close() error { return nil }

type modelTx struct {
	*contents
	before *contents
}

func (t modelTx) Changed() bool { return !reflect.DeepEqual(t.plain(), t.before.plain()) }

// plain is what is in all tables.
func (s *contents) plain() []any {
	return []any{
		s.values, s.counters, s.workflows.all, s.tasks.all, s.files.all, s.uses.all, s.classes.all, s.garbage.all, s.attempts.all, s.logs.all,
		s.leases.all, s.revoked.all, s.sites.all, s.pilots.all, s.grants.all, s.usage.all, s.audit.all,
	}
}

func (t modelTx) Meta() taskqueue.MetaTable          { return modelMeta(t) }
func (t modelTx) Workflows() taskqueue.WorkflowTable { return modelWorkflows{&t.workflows} }
func (t modelTx) Tasks() taskqueue.TaskTable         { return modelTasks(t) }
func (t modelTx) Files() taskqueue.FileTable         { return modelFiles{&t.files, t.contents} }
func (t modelTx) Attempts() taskqueue.AttemptTable   { return modelAttempts{&t.attempts, t.contents} }
func (t modelTx) Leases() taskqueue.LeaseTable       { return modelLeases{&t.leases, t.contents} }
func (t modelTx) Sites() taskqueue.SiteTable         { return modelSites{&t.sites} }
func (t modelTx) Pilots() taskqueue.PilotTable       { return modelPilots{&t.pilots} }
func (t modelTx) Usage() taskqueue.UsageTable        { return modelUsage{&t.usage} }
func (t modelTx) Grants() taskqueue.GrantTable       { return modelGrants{&t.grants} }
func (t modelTx) Audit() taskqueue.AuditTable        { return modelAudit{&t.audit} }

// rows are records in order of their first Save.
type rows[K comparable, V any] struct {
	key func(V) K
	all []V
}

func keyed[K comparable, V any](key func(V) K) rows[K, V] { return rows[K, V]{key: key} }

func (r *rows[K, V]) copy() rows[K, V] { return rows[K, V]{r.key, slices.Clone(r.all)} }

// at is the place of a record; negative if there is none.
func (r *rows[K, V]) at(key K) int {
	return slices.IndexFunc(r.all, func(other V) bool { return r.key(other) == key })
}

// Load returns the records with the keys, in the order of the keys.
func (r *rows[K, V]) Load(keys ...K) (found []V, err error) {
	for _, key := range keys {
		if at := r.at(key); at >= 0 {
			found = append(found, r.all[at])
		}
	}
	return found, nil
}

// Save replaces the records with the same keys or appends them.
func (r *rows[K, V]) Save(records ...V) error {
	for _, record := range records {
		if at := r.at(r.key(record)); at >= 0 {
			r.all[at] = record
		} else {
			r.all = append(r.all, record)
		}
	}
	return nil
}

func (r *rows[K, V]) Delete(keys ...K) error {
	r.drop(func(record V) bool { return slices.Contains(keys, r.key(record)) })
	return nil
}

func (r *rows[K, V]) drop(holds func(V) bool) { r.all = slices.DeleteFunc(r.all, holds) }

// where returns the records that hold.
func (r *rows[K, V]) where(holds func(V) bool) (found []V) {
	for _, record := range r.all {
		if holds(record) {
			found = append(found, record)
		}
	}
	return found
}

// sorted orders records by a field of theirs.
func sorted[V any, F cmp.Ordered](records []V, field func(V) F) []V {
	slices.SortFunc(records, func(a, b V) int { return cmp.Compare(field(a), field(b)) })
	return records
}

// head returns at most limit records.
func head[T any](records []T, limit int) []T {
	if limit <= 0 || len(records) == 0 {
		return nil
	}
	return records[:min(limit, len(records))]
}

func every[T any](T) bool { return true }
