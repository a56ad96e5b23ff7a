package mem

import (
	"bytes"
	"sync/atomic"

	"github.com/tidwall/btree"

	"github.com/pilotage-grid/pilotage/taskqueue/store/tables"
)

// Store is a taskqueue.Store in memory. It is safe for concurrent use.
type Store struct {
	*tables.Store
	engine *Engine
}

// New returns an empty store.
func New() *Store { return open(NewEngine()) }

// Copy returns a store that holds what this one holds now, as a backup does.
// What changes in one of them later does not change the other.
func (s *Store) Copy() *Store { return open(s.engine.Copy()) }

func open(e *Engine) *Store {
	store, err := tables.Open(e, nil)
	if err != nil {
		panic(err) // memory is not damaged
	}
	return &Store{store, e}
}

// tree is one state of the map.
type tree = btree.BTreeG[tables.Row]

// degree of the tree: small nodes, since an Update copies each node that it changes.
const degree = 16

func newTree() *tree {
	less := func(a, b tables.Row) bool { return bytes.Compare(a.Key, b.Key) < 0 }
	return btree.NewBTreeGOptions(less, btree.Options{NoLocks: true, Degree: degree})
}

// Engine keeps the map.
type Engine struct{ current atomic.Pointer[tree] }

// NewEngine returns an empty map.
func NewEngine() *Engine {
	e := &Engine{}
	e.current.Store(newTree())
	return e
}

// Copy returns a map that holds what this one holds now.
func (e *Engine) Copy() *Engine {
	other := &Engine{}
	other.current.Store(e.current.Load())
	return other
}

// Begin satisfies tables.Engine.
func (e *Engine) Begin(write bool) (tables.Transaction, error) {
	seen := e.current.Load()
	if write {
		seen = seen.Copy()
	}
	return &transaction{e, seen}, nil
}

// Close satisfies tables.Engine.
func (e *Engine) Close() error { return nil }

type transaction struct {
	engine *Engine
	tree   *tree
}

func (t *transaction) Commit() error {
	t.engine.current.Store(t.tree)
	return nil
}

func (t *transaction) Rollback() {}

func (t *transaction) Put(rows ...tables.Row) error {
	for _, row := range rows {
		t.tree.Set(row)
	}
	return nil
}

func (t *transaction) Delete(keys ...[]byte) error {
	for _, key := range keys {
		t.tree.Delete(tables.Row{Key: key})
	}
	return nil
}

func (t *transaction) Scan(span tables.Span, each func(tables.Row) (bool, error)) (err error) {
	visit := func(row tables.Row) (more bool) {
		switch {
		case span.Before != nil && bytes.Compare(row.Key, span.Before) >= 0:
			return span.Down // the bound itself
		case span.Down && bytes.Compare(row.Key, span.From) < 0:
			return false
		}
		more, err = each(row)
		return more && err == nil
	}
	switch {
	case !span.Down:
		t.tree.Ascend(tables.Row{Key: span.From}, visit)
	case span.Before == nil:
		t.tree.Reverse(visit)
	default:
		t.tree.Descend(tables.Row{Key: span.Before}, visit)
	}
	return err
}
