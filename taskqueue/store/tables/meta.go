package tables

import "bytes"

type metaTable struct{ *tx }

func (t metaTable) Get(name string) ([]byte, error) {
	value, err := t.get(values, text(name))
	return bytes.Clone(value), err
}

func (t metaTable) Set(name string, value []byte) error {
	if len(value) == 0 {
		t.drop(values, text(name))
	} else {
		t.put(values, text(name), bytes.Clone(value))
	}
	return t.writing()
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
	value, err := t.get(table, key)
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
		t.drop(table, key)
	} else {
		t.put(table, key, number(used+n))
	}
	return used, t.failed
}
