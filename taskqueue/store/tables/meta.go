package tables

import (
	"bytes"
	"encoding/binary"
)

type metaTable struct{ *tx }

func (t metaTable) Get(name string) ([]byte, error) {
	value, err := t.getOne(values, text(name))
	return bytes.Clone(value), err
}

func (t metaTable) Set(name string, value []byte) error {
	before, err := t.getOne(values, text(name))
	if err != nil {
		return err
	}
	if len(value) == 0 {
		return t.edit(values, edit{text(name), before, nil})
	}
	return t.edit(values, edit{text(name), before, bytes.Clone(value)})
}

func (t metaTable) Next(counter string, n uint64) (uint64, error) {
	if err := t.writing(); err != nil {
		return 0, err
	}
	used, err := t.count(counters, text(counter), n)
	return used + 1, err
}

// count adds to a number, 0 if it is absent, and returns what it was; 0 after
// that removes it.
func (t *tx) count(table Table, key key, n uint64) (uint64, error) {
	value, err := t.getOne(table, key)
	if err != nil {
		return 0, err
	}
	var used uint64
	if value != nil {
		before := parts{rest: value}
		if used = before.number(); before.err != nil {
			return 0, t.damaged(table, before.err)
		}
	}
	if used+n == 0 {
		return used, t.edit(table, edit{key, value, nil})
	}
	return used, t.edit(table, edit{key, value, number(used + n)})
}

// totalKey is the key of the one row of totals.
var totalKey = text("all")

// writeTotal brings the sum of all rows up to date.
func (t *tx) writeTotal() error {
	if t.total == (total{}) {
		return nil
	}
	before, err := t.readTotal()
	if err != nil {
		return err
	}
	changed := total{before.rows + t.total.rows, before.sum + t.total.sum}
	value := number(changed.rows).number(changed.sum)
	value = binary.BigEndian.AppendUint32(value, seal(totals, totalKey, value))
	return t.fail(t.rows.Put(totals, Row{totalKey, value}))
}

func (t *tx) readTotal() (total, error) {
	value, err := t.getOne(totals, totalKey)
	if err != nil || value == nil {
		return total{}, err
	}
	sum := parts{rest: value}
	found := total{sum.number(), sum.number()}
	if sum.err != nil {
		return total{}, t.damaged(totals, sum.err)
	}
	return found, nil
}
