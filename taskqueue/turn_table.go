package taskqueue

import (
	"fmt"
	"slices"
)

// table is the working copy of one table within a turn: what was loaded, what
// is known to be absent, and what changed, in the order of the first change.
type table[K comparable, V any] struct {
	turn    *Turn
	what    string                        // one of its records, for errors
	find    func(*Turn, []K) ([]V, error) // captures nothing: each turn makes all tables
	key     func(*V) K
	held    map[K]*V // a nil value is known to be absent
	changed map[K]struct{}
	order   []K
}

func newTable[K comparable, V any](t *Turn, what string, find func(*Turn, []K) ([]V, error), key func(*V) K) table[K, V] {
	return table[K, V]{turn: t, what: what, find: find, key: key}
}

// clear forgets all records; none has a change that was not saved.
func (t *table[K, V]) clear() {
	t.held, t.changed, t.order = nil, nil, nil
}

// load looks up the records of those keys that were not looked up before, in one set.
func (t *table[K, V]) load(keys ...K) {
	var want []K
	for _, key := range keys {
		if _, known := t.held[key]; !known {
			t.put(key, nil)
			want = append(want, key)
		}
	}
	if len(want) == 0 {
		return
	}
	found, err := t.find(t.turn, want)
	if err != nil {
		end(fmt.Errorf("load %ss: %w", t.what, err))
	}
	t.hold(found)
}

// one returns a record, or nil if there is no such one.
func (t *table[K, V]) one(key K) *V {
	t.load(key)
	return t.held[key]
}

// need returns a record, or ends the turn with an error that wraps ErrNotFound.
func (t *table[K, V]) need(key K) *V {
	value := t.one(key)
	if value == nil {
		end(NotFound(t.what, key))
	}
	return value
}

// hold takes in records that were read otherwise; those that the turn has stay.
func (t *table[K, V]) hold(found []V) {
	for i := range found {
		if key := t.key(&found[i]); t.held[key] == nil {
			t.put(key, &found[i])
		}
	}
}

// of returns the turn's own of records that were read otherwise.
func (t *table[K, V]) of(found []V) []*V {
	t.hold(found)
	own := make([]*V, len(found))
	for i := range found {
		own[i] = t.held[t.key(&found[i])]
	}
	return own
}

// remove forgets a record that was deleted, with what was to be saved of it.
func (t *table[K, V]) remove(key K) {
	t.put(key, nil)
	delete(t.changed, key)
	t.order = slices.DeleteFunc(t.order, func(other K) bool { return other == key })
}

func (t *table[K, V]) put(key K, value *V) {
	if t.held == nil { // most turns need few tables
		t.held = make(map[K]*V)
	}
	t.held[key] = value
}

// touch notes that the record of the key is to be saved.
func (t *table[K, V]) touch(key K) {
	if _, noted := t.changed[key]; !noted {
		if t.changed == nil {
			t.changed = make(map[K]struct{})
		}
		t.changed[key] = struct{}{}
		t.order = append(t.order, key)
	}
}

// take returns the changed records and forgets that they changed.
func (t *table[K, V]) take() []V {
	values := make([]V, 0, len(t.order))
	for _, key := range t.order {
		values = append(values, *t.held[key])
	}
	clear(t.changed)
	t.order = nil
	return values
}

// keysOf collects a key of each of some values.
func keysOf[V any, K any](values []V, key func(*V) K) []K {
	keys := make([]K, len(values))
	for i := range values {
		keys[i] = key(&values[i])
	}
	return keys
}

func saveAll[V any](values []V, save func(...V) error) {
	if len(values) > 0 {
		check(save(values...))
	}
}
