package tables

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/pilotage-grid/pilotage/taskqueue/store/internal/record"
)

// kind is a table of records of one type, with its indexes. Records are
// numbered in the order of their first Save.
type kind[K, R any] struct {
	table   Table
	codec   record.Codec[R]
	id      func(*R) K
	key     func(K) key
	counter string // of the records' numbers; "" gives none
	often   bool   // they are read all the time: they are decoded once
	indexes []index[R]
}

// index is a table whose values are keys of records.
type index[R any] struct {
	table Table
	keys  func(number uint64, r *R) []key // that it has of the record
}

// stored is a record as it is kept.
type stored[R any] struct {
	number uint64
	record R
}

// noLimit is the limit of reads that return everything.
const noLimit = math.MaxInt

// records are the records of a kind within a Tx.
type records[K, R any] struct {
	*tx
	kind *kind[K, R]
}

func (k *kind[K, R]) decode(t *tx, row Row) (found stored[R], err error) {
	found.number, err = k.decodeInto(t, row, &found.record)
	return found, err
}

// decodeInto decodes a record in the place where it is wanted, as some are large.
func (k *kind[K, R]) decodeInto(t *tx, row Row, at *R) (number uint64, err error) {
	if !k.often || len(row.Value) > longestDecoded {
		return k.decodeAnew(t, row.Value, at)
	}
	name := string(k.table.in(row.Key))
	known, is := t.decoded.Get(name)
	if !is || !bytes.Equal(known.value, row.Value) {
		anew := &stored[R]{}
		if anew.number, err = k.decodeAnew(t, row.Value, &anew.record); err != nil {
			return 0, err
		}
		known = decoded{bytes.Clone(row.Value), anew}
		t.decoded.Add(name, known)
	}
	kept := known.record.(*stored[R])
	*at = kept.record
	k.codec.Own(at)
	return kept.number, nil
}

func (k *kind[K, R]) decodeAnew(t *tx, value []byte, at *R) (number uint64, err error) {
	number, n := binary.Uvarint(value)
	if n <= 0 {
		return 0, t.damaged(k.table, errors.New("a record has no number"))
	}
	if err := k.codec.Decode(value[n:], at); err != nil {
		return 0, t.damaged(k.table, err)
	}
	return number, nil
}

// decodeBehind decodes a record behind others.
func (k *kind[K, R]) decodeBehind(t *tx, found []R, row Row) ([]R, error) {
	found = append(found, *new(R))
	_, err := k.decodeInto(t, row, &found[len(found)-1])
	return found, err
}

// decoded is a record as it was decoded last, from which value.
type decoded struct {
	value  []byte
	record any // *stored[R]
}

// A store keeps so many records decoded, each of so many bytes at most; who reads more of
// them in turn decodes them anew.
const (
	mostDecoded    = 1 << 12
	longestDecoded = 16 << 10
)

// damaged tells that a record cannot be what was written.
func (t *tx) damaged(table Table, err error) error {
	return t.fail(fmt.Errorf("%w: table %s: %w", ErrDamaged, table, err))
}

// find returns the record of a key and whether it is there.
func (r records[K, R]) find(key []byte) (found stored[R], there bool, err error) {
	value, err := r.get(r.kind.table, key)
	if err != nil || value == nil {
		return found, false, err
	}
	found, err = r.kind.decode(r.tx, Row{key, value})
	return found, true, err
}

// collect adds the record of a key to those found so far, the first of at most so many,
// and tells whether it is there.
func (r records[K, R]) collect(found []R, most int, key []byte) (_ []R, there bool, err error) {
	value, err := r.get(r.kind.table, key)
	if err != nil || value == nil {
		return found, false, err
	}
	if found == nil {
		found = make([]R, 0, most)
	}
	found, err = r.kind.decodeBehind(r.tx, found, Row{key, value})
	return found, true, err
}

// Load returns the records with the ids, absent ones left out.
func (r records[K, R]) Load(ids ...K) (found []R, err error) {
	for i, id := range ids {
		if found, _, err = r.collect(found, len(ids)-i, r.kind.key(id)); err != nil {
			return nil, err
		}
	}
	return found, r.usable()
}

// Save writes records and brings the indexes up to date.
func (r records[K, R]) Save(saved ...R) error {
	for i := range saved {
		if err := r.replace(r.kind.key(r.kind.id(&saved[i])), &saved[i]); err != nil {
			return err
		}
	}
	return r.writing()
}

// Delete removes records and their entries in the indexes.
func (r records[K, R]) Delete(ids ...K) error {
	for _, id := range ids {
		if err := r.replace(r.kind.key(id), nil); err != nil {
			return err
		}
	}
	return r.writing()
}

// replace writes a record over the one with its key; nil removes that.
func (r records[K, R]) replace(key []byte, with *R) error {
	if err := r.writing(); err != nil {
		return err
	}
	k := r.kind
	var before stored[R]
	there := false
	if k.counter != "" || len(k.indexes) > 0 {
		var err error
		if before, there, err = r.find(key); err != nil {
			return err
		}
	}
	after := stored[R]{number: before.number}
	switch {
	case with == nil:
		r.drop(k.table, key)
	default:
		after.record = *with
		if !there && k.counter != "" {
			var err error
			if after.number, err = (metaTable{r.tx}).Next(k.counter, 1); err != nil {
				return err
			}
		}
		r.put(k.table, key, k.codec.Append(binary.AppendUvarint(make([]byte, 0, 256), after.number), with))
	}
	for _, index := range k.indexes {
		index.replace(r.tx, key, index.of(&before, there), index.of(&after, with != nil))
	}
	return r.failed
}

// of returns the keys of a record, none if it is not there.
func (x index[R]) of(s *stored[R], there bool) []key {
	if !there {
		return nil
	}
	return x.keys(s.number, &s.record)
}

// replace writes the entries of a record that has changed.
func (x index[R]) replace(t *tx, primary []byte, before, after []key) {
	for _, gone := range before {
		if !slices.ContainsFunc(after, func(k key) bool { return bytes.Equal(k, gone) }) {
			t.drop(x.table, gone)
		}
	}
	for _, key := range after {
		t.put(x.table, key, primary)
	}
}

// scan returns records in the order of their keys, at most limit.
func (r records[K, R]) scan(span Span, limit int) (found []R, err error) {
	if limit < 1 {
		return nil, r.usable()
	}
	var rows []Row // are decoded when it is known how many there are: records are large
	err = r.tx.scan(r.kind.table, span, func(row Row) (bool, error) {
		rows = append(rows, row)
		return len(rows) < limit, nil
	})
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	found = make([]R, len(rows))
	for i, row := range rows {
		if _, err := r.kind.decodeInto(r.tx, row, &found[i]); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// All returns all records in the order of their keys.
func (r records[K, R]) All() ([]R, error) { return r.scan(Span{}, noLimit) }

// by returns the records of a span of an index, in its order, at most limit.
func (r records[K, R]) by(index Table, span Span, limit int) (found []R, err error) {
	keys, err := r.primaries(index, span, limit)
	if err != nil {
		return nil, err
	}
	return r.at(index, keys)
}

// at returns the records with the keys that an index has.
func (r records[K, R]) at(index Table, keys [][]byte) (found []R, err error) {
	for i, key := range keys {
		var there bool
		found, there, err = r.collect(found, len(keys)-i, key)
		if err == nil && !there {
			err = r.damaged(index, errors.New("it has a record that is not there"))
		}
		if err != nil {
			return nil, err
		}
	}
	return found, nil
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
