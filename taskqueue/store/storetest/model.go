package storetest

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// model is the obvious store: maps and slices that are copied for every
// Update and searched from end to end. It is what the random tests hold an
// engine against; it does not guard its records against their users.
type model struct {
	mutex sync.Mutex
	state *contents
}

// contents are slices in order of first Save, and maps where no order matters.
type contents struct {
	values    map[string][]byte
	counters  map[string]uint64
	workflows []taskqueue.Workflow
	tasks     []modelTask
	files     map[task.LFN]taskqueue.FileRecord
	uses      map[modelUse]bool
	classes   map[taskqueue.ClassID]taskqueue.Eligibility
	garbage   []task.Replica
	attempts  []taskqueue.Attempt
	logs      map[task.AttemptID][2][]byte
	leases    map[task.LeaseID]taskqueue.Lease
	revoked   map[taskqueue.Revocation]bool // by the record without Cancel
	sites     map[task.Site]taskqueue.SiteRecord
	pilots    []taskqueue.PilotRecord
	grants    map[string]taskqueue.Grant
	usage     []taskqueue.Usage
	audit     map[uint64]taskqueue.AuditRecord
}

type modelTask struct {
	description task.Task
	state       taskqueue.TaskState
}

type modelUse struct {
	file   task.LFN
	reader task.ID
}

func newModel() *model {
	return &model{state: &contents{
		values: map[string][]byte{}, counters: map[string]uint64{},
		files: map[task.LFN]taskqueue.FileRecord{}, uses: map[modelUse]bool{},
		classes: map[taskqueue.ClassID]taskqueue.Eligibility{}, logs: map[task.AttemptID][2][]byte{},
		leases: map[task.LeaseID]taskqueue.Lease{}, revoked: map[taskqueue.Revocation]bool{},
		sites: map[task.Site]taskqueue.SiteRecord{}, grants: map[string]taskqueue.Grant{}, audit: map[uint64]taskqueue.AuditRecord{},
	}}
}

func (s *contents) copy() *contents {
	return &contents{
		maps.Clone(s.values), maps.Clone(s.counters), slices.Clone(s.workflows), slices.Clone(s.tasks),
		maps.Clone(s.files), maps.Clone(s.uses), maps.Clone(s.classes), slices.Clone(s.garbage),
		slices.Clone(s.attempts), maps.Clone(s.logs), maps.Clone(s.leases), maps.Clone(s.revoked),
		maps.Clone(s.sites), slices.Clone(s.pilots), maps.Clone(s.grants), slices.Clone(s.usage), maps.Clone(s.audit),
	}
}

func (m *model) View(_ context.Context, read func(taskqueue.Tx) error) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return read(modelTx{m.state})
}

func (m *model) Update(_ context.Context, write func(taskqueue.Tx) error) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	next := m.state.copy()
	if err := write(modelTx{next}); err != nil {
		return err
	}
	m.state = next
	return nil
}

func (m *model) Close() error { return nil }

type modelTx struct{ *contents }

func (t modelTx) Meta() taskqueue.MetaTable          { return modelMeta(t) }
func (t modelTx) Workflows() taskqueue.WorkflowTable { return modelWorkflows(t) }
func (t modelTx) Tasks() taskqueue.TaskTable         { return modelTasks(t) }
func (t modelTx) Files() taskqueue.FileTable         { return modelFiles(t) }
func (t modelTx) Attempts() taskqueue.AttemptTable   { return modelAttempts(t) }
func (t modelTx) Leases() taskqueue.LeaseTable       { return modelLeases(t) }
func (t modelTx) Sites() taskqueue.SiteTable         { return modelSites(t) }
func (t modelTx) Pilots() taskqueue.PilotTable       { return modelPilots(t) }
func (t modelTx) Usage() taskqueue.UsageTable        { return modelUsage(t) }
func (t modelTx) Grants() taskqueue.GrantTable       { return modelGrants(t) }
func (t modelTx) Audit() taskqueue.AuditTable        { return modelAudit(t) }

// pick returns the records of a map that are asked for.
func pick[K comparable, V any](from map[K]V, keys []K) (found []V) {
	for _, key := range keys {
		if value, ok := from[key]; ok {
			found = append(found, value)
		}
	}
	return found
}

// where returns the records that hold, in the order of keys.
func where[K ~string | ~uint32 | ~uint64, V any](from map[K]V, holds func(V) bool) (found []V) {
	for _, key := range slices.Sorted(maps.Keys(from)) {
		if holds(from[key]) {
			found = append(found, from[key])
		}
	}
	return found
}

// put replaces the record with the same key or appends it.
func put[T any, K comparable](records []T, key func(T) K, record T) []T {
	at := slices.IndexFunc(records, func(other T) bool { return key(other) == key(record) })
	if at < 0 {
		return append(records, record)
	}
	records[at] = record
	return records
}

// choose returns the records with the keys, in the order of the keys.
func choose[T any, K comparable](records []T, key func(T) K, keys []K) (found []T) {
	for _, wanted := range keys {
		for _, record := range records {
			if key(record) == wanted {
				found = append(found, record)
			}
		}
	}
	return found
}

// head returns at most limit records.
func head[T any](records []T, limit int) []T {
	if limit <= 0 || len(records) == 0 {
		return nil
	}
	return records[:min(limit, len(records))]
}
