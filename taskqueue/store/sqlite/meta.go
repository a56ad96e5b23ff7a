package sqlite

import "database/sql/driver"

type metaTable struct{ *tx }

func (t metaTable) Get(name string) (value []byte, err error) {
	err = t.read("SELECT value FROM meta WHERE name = ?", func(row []driver.Value) error {
		value = row[0].([]byte)
		return nil
	}, name)
	return value, err
}

func (t metaTable) Set(name string, value []byte) error {
	if len(value) == 0 {
		return t.write("DELETE FROM meta WHERE name = ?", name)
	}
	return t.write("INSERT INTO meta VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value", name, value)
}

func (t metaTable) Next(counter string, n uint64) (uint64, error) {
	if err := t.writing(); err != nil {
		return 0, err
	}
	used, err := t.integer("SELECT used FROM counters WHERE name = ?", counter)
	if err != nil {
		return 0, err
	}
	err = t.write("INSERT INTO counters VALUES (?, ?) ON CONFLICT DO UPDATE SET used = excluded.used", counter, used+int64(n))
	return uint64(used) + 1, err
}
