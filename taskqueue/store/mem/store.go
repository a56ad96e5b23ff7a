package mem

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/internal/gate"
)

// Store is a taskqueue.Store in memory. It is safe for concurrent use.
type Store struct {
	gate    gate.Gate
	writer  sync.Mutex
	current atomic.Pointer[version]
	inPlace bool
	broken  error // of the Update that has left a store in place half changed
}

var _ taskqueue.Store = (*Store)(nil)

// New returns an empty store.
func New() *Store { return open(false) }

func open(inPlace bool) *Store {
	store := &Store{inPlace: inPlace}
	store.current.Store(newVersion(inPlace))
	return store
}

// Copy returns a store that holds what this one holds now, as a backup does.
// What changes in one of them later does not change the other; a store in place
// has no copies.
func (s *Store) Copy() *Store {
	store := &Store{}
	store.current.Store(s.current.Load())
	return store
}

// NewInPlace returns an empty store that changes its one version instead of
// copies, for a simulation: one goroutine, whose run ends with an Update that
// fails. After such a one, which cannot be taken back, every call fails.
func NewInPlace() *Store { return open(true) }

// View calls read with the version that is current now.
func (s *Store) View(ctx context.Context, read func(taskqueue.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !s.gate.Enter() {
		return taskqueue.ErrClosed
	}
	defer s.gate.Leave()
	if s.inPlace && s.broken != nil {
		return s.broken
	}
	tx := &tx{version: s.current.Load(), readOnly: true}
	defer tx.end()
	return read(tx)
}

// Update calls write, which changes a copy of the current version, made at its
// first change, and makes that current unless write, or one of the Tx's writes,
// failed.
func (s *Store) Update(ctx context.Context, write func(taskqueue.Tx) error) error {
	if !s.gate.Enter() {
		return taskqueue.ErrClosed
	}
	defer s.gate.Leave()
	s.writer.Lock()
	defer s.writer.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.broken != nil {
		return s.broken
	}
	tx := &tx{version: s.current.Load(), inPlace: s.inPlace}
	defer tx.end()
	err := write(tx)
	if err == nil {
		err = tx.failed
	}
	if err != nil {
		if tx.own && s.inPlace {
			s.broken = fmt.Errorf("the store is half changed: %w", err)
		}
		return err
	}
	if tx.own {
		s.current.Store(tx.version)
	}
	return nil
}

// Close waits for what runs. Closing again does nothing.
func (s *Store) Close() error {
	s.gate.Close()
	return nil
}

// tx is one transaction over one version.
type tx struct {
	*version
	inPlace  bool // the version may be changed without a copy
	own      bool // it has been written; unless in place, it is this transaction's copy
	readOnly bool
	over     bool
	failed   error // first error of a write
}

func (t *tx) end() { t.over = true }

// writing comes before every write: it tells why that is not possible, if it is
// not, and makes the version one's own.
func (t *tx) writing() error {
	switch {
	case t.over:
		return taskqueue.ErrTxOver
	case t.readOnly:
		return taskqueue.ErrReadOnly
	}
	if !t.own && !t.inPlace {
		t.version = t.version.copy()
	}
	t.own = true
	return nil
}

// fail notes the error of a write, so that the Update fails with it.
func (t *tx) fail(err error) error {
	if t.failed == nil {
		t.failed = err
	}
	return err
}

func (t *tx) Meta() taskqueue.MetaTable          { return metaTable{t} }
func (t *tx) Workflows() taskqueue.WorkflowTable { return workflowTable{t} }
func (t *tx) Tasks() taskqueue.TaskTable         { return taskTable{t} }
func (t *tx) Files() taskqueue.FileTable         { return fileTable{t} }
func (t *tx) Attempts() taskqueue.AttemptTable   { return attemptTable{t} }
func (t *tx) Leases() taskqueue.LeaseTable       { return leaseTable{t} }
func (t *tx) Sites() taskqueue.SiteTable         { return siteTable{t} }
func (t *tx) Pilots() taskqueue.PilotTable       { return pilotTable{t} }
func (t *tx) Grants() taskqueue.GrantTable       { return grantTable{t} }
