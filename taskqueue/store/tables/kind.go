package tables

import (
	"encoding/binary"
	"fmt"

	"github.com/pilotage-grid/pilotage/taskqueue/store/internal/record"
)

// kind is a table of records of one type, with its indexes. Records are
// numbered in the order of their first Save.
type kind[R any] struct {
	table   Table
	codec   record.Codec[R]
	key     func(*R) key
	counter string // of the records' numbers; "" gives none
	indexes []index[R]
}

// index is a table whose values are keys of records.
type index[R any] struct {
	table Table
	key   func(number uint64, r *R) key // nil: it does not hold the record
}

// stored is a record as it is kept.
type stored[R any] struct {
	number uint64
	record R
}

func (k *kind[R]) encode(number uint64, r *R) []byte {
	return append(binary.AppendUvarint(nil, number), k.codec.Encode(r)...)
}

func (k *kind[R]) decode(t *tx, value []byte, into *stored[R]) error {
	number, n := binary.Uvarint(value)
	if n <= 0 {
		return t.damaged(k.table, fmt.Errorf("a record has no number"))
	}
	into.number = number
	if err := k.codec.Decode(value[n:], &into.record); err != nil {
		return t.damaged(k.table, err)
	}
	return nil
}

// damaged tells that a record cannot be what was written.
func (t *tx) damaged(table Table, err error) error {
	return t.fail(fmt.Errorf("%w: table %s: restore the folder from a backup: %w", ErrDamaged, Names[table], err))
}

// load returns the records of keys, absent ones left out.
func (k *kind[R]) load(t *tx, keys ...[]byte) (found []R, err error) {
	if len(keys) == 0 {
		return nil, t.usable()
	}
	values, err := t.get(k.table, keys...)
	if err != nil {
		return nil, err
	}
	for _, value := range values {
		if value == nil {
			continue
		}
		var s stored[R]
		if err := k.decode(t, value, &s); err != nil {
			return nil, err
		}
		found = append(found, s.record)
	}
	return found, nil
}

// save writes records and brings the indexes up to date.
func (k *kind[R]) save(t *tx, records ...R) error {
	for i := range records {
		if err := k.saveOne(t, &records[i]); err != nil {
			return err
		}
	}
	return t.writing()
}

func (k *kind[R]) saveOne(t *tx, r *R) error {
	if err := t.writing(); err != nil {
		return err
	}
	key := k.key(r)
	value, err := t.getOne(k.table, key)
	if err != nil {
		return err
	}
	return k.replace(t, key, value, r)
}

// replace writes a record over a row's value, nil if there is none, and brings
// the indexes up to date; a record that is nil goes.
func (k *kind[R]) replace(t *tx, key key, value []byte, r *R) (err error) {
	var before, after *stored[R]
	if value != nil {
		before = new(stored[R])
		if err := k.decode(t, value, before); err != nil {
			return err
		}
	}
	var to []byte
	if r != nil {
		after = &stored[R]{record: *r}
		if before != nil {
			after.number = before.number
		} else if k.counter != "" {
			if after.number, err = (metaTable{t}).Next(k.counter, 1); err != nil {
				return err
			}
		}
		to = k.encode(after.number, r)
	}
	if err := t.edit(k.table, edit{key, value, to}); err != nil {
		return err
	}
	for _, index := range k.indexes {
		if err := t.edit(index.table, append(index.entry(before, key, true), index.entry(after, key, false)...)...); err != nil {
			return err
		}
	}
	return nil
}

// entry is the edit that an index needs for a record that goes or comes.
func (x index[R]) entry(s *stored[R], primary []byte, goes bool) []edit {
	if s == nil {
		return nil
	}
	key := x.key(s.number, &s.record)
	switch {
	case key == nil:
		return nil
	case goes:
		return []edit{{key, primary, nil}}
	}
	return []edit{{key, nil, primary}}
}

// remove deletes records and their entries in the indexes.
func (k *kind[R]) remove(t *tx, keys ...[]byte) error {
	if err := t.writing(); err != nil {
		return err
	}
	for _, key := range keys {
		value, err := t.getOne(k.table, key)
		if err != nil {
			return err
		}
		if value == nil {
			continue
		}
		if err := k.replace(t, key, value, nil); err != nil {
			return err
		}
	}
	return nil
}

// scan reads records in the order of their keys, at most limit.
func (k *kind[R]) scan(t *tx, span Span, limit int) (found []stored[R], err error) {
	if limit < 1 {
		return nil, t.usable()
	}
	err = t.scan(k.table, span, func(row Row) (bool, error) {
		found = append(found, stored[R]{})
		err := k.decode(t, row.Value, &found[len(found)-1])
		return len(found) < limit, err
	})
	return found, err
}

// by reads the records of a span of an index, in its order, at most limit.
func (k *kind[R]) by(t *tx, index Table, span Span, limit int) ([]R, error) {
	keys, err := t.primaries(index, span, limit)
	if err != nil || len(keys) == 0 {
		return nil, err
	}
	return k.load(t, keys...)
}

// primaries returns the keys of the records of a span of an index.
func (t *tx) primaries(index Table, span Span, limit int) (keys [][]byte, err error) {
	if limit < 1 {
		return nil, t.usable()
	}
	err = t.scan(index, span, func(row Row) (bool, error) {
		keys = append(keys, row.Value)
		return len(keys) < limit, nil
	})
	return keys, err
}

func bare[R any](found []stored[R], err error) ([]R, error) {
	if err != nil || len(found) == 0 {
		return nil, err
	}
	records := make([]R, len(found))
	for i := range found {
		records[i] = found[i].record
	}
	return records, nil
}

func keysOf[S ~string](names []S) [][]byte {
	keys := make([][]byte, len(names))
	for i, name := range names {
		keys[i] = text(name)
	}
	return keys
}
