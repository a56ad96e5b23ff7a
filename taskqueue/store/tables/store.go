package tables

import (
	"bytes"
	"context"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/internal/gate"
)

// Store is a taskqueue.Store over an Engine. It is safe for concurrent use; a Tx is not.
type Store struct {
	engine  Engine
	gate    gate.Gate
	decoded *lru.Cache[string, decoded] // by table and key
	writer  writer
}

// Witness keeps, apart from the engine, the number of the last commit that was
// acknowledged. It may lag behind, and is never ahead.
type Witness interface {
	Read() (commit uint64, err error) // 0 if it knows none
	Write(commit uint64)
}

// Open returns the store that an engine keeps. What the witness saw and the
// engine does not have gives ErrDamaged. There may be no witness.
func Open(engine Engine, witness Witness) (*Store, error) {
	known, err := lru.New[string, decoded](mostDecoded)
	if err != nil {
		return nil, err
	}
	s := &Store{engine: engine, decoded: known}
	s.writer.engine, s.writer.witness, s.writer.patience, s.writer.decoded = engine, witness, batchTime, known
	err = s.view(context.Background(), func(t Transaction) (err error) {
		if s.writer.total, err = readTotal(t); err != nil || witness == nil {
			return err
		}
		seen, err := witness.Read()
		if found := s.writer.total.commits; err == nil && found < seen {
			err = lost(found, seen)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// View calls read with what was committed last.
func (s *Store) View(ctx context.Context, read func(taskqueue.Tx) error) error {
	return s.view(ctx, func(in Transaction) error {
		tx := &tx{blocks: &blocks{in: in}, decoded: s.decoded, readOnly: true}
		defer tx.end()
		return read(tx)
	})
}

func (s *Store) view(ctx context.Context, read func(Transaction) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !s.gate.Enter() {
		return taskqueue.ErrClosed
	}
	defer s.gate.Leave()
	in, err := s.engine.Begin(false)
	if err != nil {
		return err
	}
	defer in.Rollback()
	return read(in)
}

// Update calls write and returns once what it wrote is durable. Updates that
// come while another one runs are committed together with it. When a common
// commit fails, each of them is tried once more alone.
func (s *Store) Update(ctx context.Context, write func(taskqueue.Tx) error) error {
	if !s.gate.Enter() {
		return taskqueue.ErrClosed
	}
	defer s.gate.Leave()
	err, shared := s.writer.update(ctx, write, false)
	if shared {
		err, _ = s.writer.update(ctx, write, true)
	}
	return err
}

// Close waits for what runs.
func (s *Store) Close() error {
	if !s.gate.Close() {
		return nil
	}
	return s.engine.Close()
}

// tx is one View or Update.
type tx struct {
	blocks   *blocks
	decoded  *lru.Cache[string, decoded]
	readOnly bool
	over     bool
	failed   error                       // first error: nothing more is done after it
	ready    map[taskqueue.ClassID]int64 // changes of the counts of READY tasks that are not written yet
	seqs     map[task.ID]uint64          // of tasks that were read lately
	at       *run                        // that was read last, as it is in the table
}

func (t *tx) end() { t.over = true }

// finish writes what was put off and returns the first error of the Tx.
func (t *tx) finish() error {
	t.writeReadyCounts()
	return t.failed
}

func (t *tx) fail(err error) error {
	if err != nil && t.failed == nil && !t.readOnly {
		t.failed = err
	}
	return err
}

func (t *tx) usable() error {
	if t.over {
		return taskqueue.ErrTxOver
	}
	return t.failed
}

func (t *tx) writing() error {
	if t.readOnly && !t.over {
		return taskqueue.ErrReadOnly
	}
	return t.usable()
}

// in is a key as it is in the ordered map: behind its table.
func (t Table) in(key []byte) []byte {
	return append(append(make([]byte, 0, len(key)+1), byte(t)), key...)
}

// get returns the value of a key, nil if it is absent.
func (t *tx) get(table Table, key []byte) ([]byte, error) {
	if err := t.usable(); err != nil {
		return nil, err
	}
	value, err := t.blocks.get(table.in(key))
	return value, t.fail(err)
}

// put writes a row. Its error is that of the Tx.
func (t *tx) put(table Table, key, value []byte) {
	if value == nil {
		value = []byte{}
	}
	t.set(table, key, value)
}

// drop takes a row away, if it is there. Its error is that of the Tx.
func (t *tx) drop(table Table, key []byte) { t.set(table, key, nil) }

func (t *tx) set(table Table, key, value []byte) {
	if t.writing() == nil {
		_ = t.fail(t.blocks.put(Row{table.in(key), value}))
	}
}

// scan calls each with the rows of a span until it returns false. It may change
// other tables meanwhile.
func (t *tx) scan(table Table, span Span, each func(Row) (bool, error)) error {
	if err := t.usable(); err != nil {
		return err
	}
	within := Span{table.in(span.From), []byte{byte(table) + 1}, span.Down}
	if span.Before != nil {
		within.Before = table.in(span.Before)
	}
	return t.fail(t.blocks.scan(within, func(row Row) (bool, error) {
		row.Key = row.Key[1:]
		return each(row)
	}))
}

// clear deletes rows of a span until left is used up; also is told of each first.
func (t *tx) clear(table Table, span Span, left *int, also func(Row) error) error {
	for *left > 0 {
		var gone [][]byte
		err := t.scan(table, span, func(row Row) (bool, error) {
			gone = append(gone, bytes.Clone(row.Key))
			var err error
			if also != nil {
				err = also(row)
			}
			return len(gone) < min(*left, clearedAtOnce), err
		})
		if err != nil || len(gone) == 0 {
			return err
		}
		for _, key := range gone {
			t.drop(table, key)
		}
		*left -= len(gone)
	}
	return nil
}

// clearedAtOnce bounds the keys of rows to be deleted that are kept in memory.
const clearedAtOnce = 1 << 12

// Changed tells whether something was written that was not there already.
func (t *tx) Changed() bool { return len(t.blocks.undo) > 0 || t.blocks.stuck }

func (t *tx) Meta() taskqueue.MetaTable { return metaTable{t} }
func (t *tx) Workflows() taskqueue.WorkflowTable {
	return workflowTable{records[task.WorkflowID, taskqueue.Workflow]{t, &workflowKind}}
}
func (t *tx) Tasks() taskqueue.TaskTable { return taskTable{t} }
func (t *tx) Files() taskqueue.FileTable {
	return fileTable{records[task.LFN, taskqueue.FileRecord]{t, &fileKind}}
}
func (t *tx) Attempts() taskqueue.AttemptTable {
	return attemptTable{records[task.AttemptID, taskqueue.Attempt]{t, &attemptKind}}
}
func (t *tx) Leases() taskqueue.LeaseTable {
	return leaseTable{records[task.LeaseID, taskqueue.Lease]{t, &leaseKind}}
}
func (t *tx) Sites() taskqueue.SiteTable {
	return records[task.Site, taskqueue.SiteRecord]{t, &siteKind}
}
func (t *tx) Pilots() taskqueue.PilotTable {
	return pilotTable{records[task.PilotID, taskqueue.PilotRecord]{t, &pilotKind}}
}
func (t *tx) Usage() taskqueue.UsageTable {
	return usageTable{records[taskqueue.UsageKey, taskqueue.Usage]{t, &usageKind}}
}
func (t *tx) Audit() taskqueue.AuditTable {
	return auditTable{records[uint64, taskqueue.AuditRecord]{t, &auditKind}}
}
func (t *tx) Grants() taskqueue.GrantTable {
	return records[string, taskqueue.Grant]{t, &grantKind}
}
