package mem

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"

	"github.com/tidwall/btree"

	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/internal/gate"
	"github.com/pilotage-grid/pilotage/taskqueue/store/tables"
)

// Store is a taskqueue.Store in memory. It is safe for concurrent use.
type Store struct {
	*tables.Store
	engine *engine
}

// New returns an empty store.
func New() *Store { return open(new(version)) }

// Copy returns a store that holds what this one holds now, as a backup does.
// What changes in one of them later does not change the other.
func (s *Store) Copy() *Store { return open(s.engine.current.Load()) }

func open(v *version) *Store {
	e := &engine{}
	e.current.Store(v)
	return &Store{tables.New(e), e}
}

// engine keeps the tables.
type engine struct {
	gate    gate.Gate
	writer  sync.Mutex
	current atomic.Pointer[version]
}

// version is one state of all tables; a table without rows is nil.
type version [len(tables.Names)]*btree.BTreeG[tables.Row]

// degree of the B-trees: small nodes, since an Update copies each node that
// it changes.
const degree = 16

func newTable() *btree.BTreeG[tables.Row] {
	less := func(a, b tables.Row) bool { return bytes.Compare(a.Key, b.Key) < 0 }
	return btree.NewBTreeGOptions(less, btree.Options{NoLocks: true, Degree: degree})
}

func (e *engine) View(ctx context.Context, read func(tables.Rows) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !e.gate.Enter() {
		return taskqueue.ErrClosed
	}
	defer e.gate.Leave()
	return read(&rows{version: *e.current.Load()})
}

func (e *engine) Update(ctx context.Context, write func(tables.Rows) error) error {
	if !e.gate.Enter() {
		return taskqueue.ErrClosed
	}
	defer e.gate.Leave()
	e.writer.Lock()
	defer e.writer.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	r := &rows{version: *e.current.Load()}
	if err := write(r); err != nil {
		return err
	}
	e.current.Store(&r.version)
	return nil
}

func (e *engine) Close() error {
	e.gate.Close()
	return nil
}

// rows is one transaction over one version.
type rows struct {
	version version
	own     [len(tables.Names)]bool // tables that are this transaction's copy
}

// writable returns a table that may be changed.
func (r *rows) writable(table tables.Table) *btree.BTreeG[tables.Row] {
	if r.own[table] {
		return r.version[table]
	}
	r.own[table] = true
	if r.version[table] == nil {
		r.version[table] = newTable()
	} else {
		r.version[table] = r.version[table].Copy()
	}
	return r.version[table]
}

func (r *rows) Get(table tables.Table, keys ...[]byte) ([][]byte, error) {
	values := make([][]byte, len(keys))
	if tree := r.version[table]; tree != nil {
		for i, key := range keys {
			if row, ok := tree.Get(tables.Row{Key: key}); ok {
				values[i] = row.Value
			}
		}
	}
	return values, nil
}

func (r *rows) Put(table tables.Table, rows ...tables.Row) error {
	tree := r.writable(table)
	for _, row := range rows {
		tree.Set(row)
	}
	return nil
}

func (r *rows) Delete(table tables.Table, keys ...[]byte) error {
	tree := r.writable(table)
	for _, key := range keys {
		tree.Delete(tables.Row{Key: key})
	}
	return nil
}

func (r *rows) Scan(table tables.Table, span tables.Span, each func(tables.Row) (bool, error)) (err error) {
	tree := r.version[table]
	if tree == nil {
		return nil
	}
	visit := func(row tables.Row) (more bool) {
		if span.Down && span.From != nil && bytes.Compare(row.Key, span.From) < 0 ||
			!span.Down && span.Before != nil && bytes.Compare(row.Key, span.Before) >= 0 {
			return false
		}
		more, err = each(row)
		return more && err == nil
	}
	switch {
	case !span.Down && span.From == nil:
		tree.Scan(visit)
	case !span.Down:
		tree.Ascend(tables.Row{Key: span.From}, visit)
	case span.Before == nil:
		tree.Reverse(visit)
	default:
		tree.Descend(tables.Row{Key: span.Before}, func(row tables.Row) bool {
			return bytes.Equal(row.Key, span.Before) || visit(row)
		})
	}
	return err
}
