package mem

import "bytes"

type metaTable struct{ *tx }

func (t metaTable) Get(name string) ([]byte, error) {
	value, _ := t.values.get(name)
	return bytes.Clone(value), nil
}

func (t metaTable) Set(name string, value []byte) error {
	if err := t.writing(); err != nil {
		return err
	}
	if len(value) == 0 {
		t.values.remove(name)
		return nil
	}
	t.values.set(name, bytes.Clone(value))
	return nil
}

func (t metaTable) Next(counter string, n uint64) (uint64, error) {
	if err := t.writing(); err != nil {
		return 0, err
	}
	used, _ := t.counters.get(counter)
	t.counters.set(counter, used+n)
	return used + 1, nil
}
