package sqlite

import (
	"database/sql/driver"
	"strings"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

type fileTable struct{ *tx }

func (t fileTable) Load(names ...task.LFN) ([]taskqueue.FileRecord, error) {
	return load(t.tx, fileCodec, "SELECT record FROM files WHERE name = ?", names)
}

func (t fileTable) Save(files ...taskqueue.FileRecord) error {
	for _, f := range files {
		err := t.write("INSERT INTO files VALUES (?, ?) ON CONFLICT DO UPDATE SET record = excluded.record", string(f.LFN), fileCodec.Encode(&f))
		if err != nil {
			return err
		}
		if err := t.write("DELETE FROM announced WHERE name = ?", string(f.LFN)); err != nil {
			return err
		}
		if len(f.Replicas) > 0 {
			continue
		}
		for _, site := range f.Announced {
			if err := t.write("INSERT OR IGNORE INTO announced VALUES (?, ?)", string(f.LFN), string(site)); err != nil {
				return err
			}
		}
	}
	return t.writing()
}

func (t fileTable) Delete(names ...task.LFN) error {
	for _, name := range names {
		if err := t.write("DELETE FROM files WHERE name = ?", string(name)); err != nil {
			return err
		}
		if err := t.write("DELETE FROM announced WHERE name = ?", string(name)); err != nil {
			return err
		}
	}
	return t.writing()
}

func (t fileTable) AddUses(reader task.ID, names ...task.LFN) error {
	for _, name := range names {
		if err := t.write("INSERT OR IGNORE INTO uses VALUES (?, ?)", string(name), string(reader)); err != nil {
			return err
		}
	}
	return t.writing()
}

func (t fileTable) Readers(name task.LFN) (readers []task.ID, err error) {
	err = t.read("SELECT reader FROM uses WHERE file = ? ORDER BY reader", func(row []driver.Value) error {
		readers = append(readers, task.ID(row[0].(string)))
		return nil
	}, string(name))
	return readers, err
}

func (t fileTable) List(prefix string, after task.LFN, limit int) (found []taskqueue.FileRecord, err error) {
	sql, from := "SELECT record, name FROM files WHERE name > ? ORDER BY name LIMIT 0+?", string(after)
	if after == "" || prefix > from {
		sql, from = "SELECT record, name FROM files WHERE name >= ? ORDER BY name LIMIT 0+?", prefix
	}
	err = t.read(sql, func(row []driver.Value) error {
		if !strings.HasPrefix(row[1].(string), prefix) {
			return errStop
		}
		var err error
		found, err = appendDecoded(found, t.tx, fileCodec, row[0].([]byte))
		return err
	}, from, atMost(limit))
	return found, err
}

func (t fileTable) OnlyAnnouncedAt(site task.Site, after task.LFN, limit int) ([]taskqueue.FileRecord, error) {
	return records(t.tx, fileCodec, `SELECT f.record FROM announced a CROSS JOIN files f ON f.name = a.name
		WHERE a.site = ? AND a.name > ? ORDER BY a.name LIMIT 0+?`, string(site), string(after), atMost(limit))
}

func (t fileTable) Classes() ([]taskqueue.Eligibility, error) {
	return records(t.tx, classCodec, "SELECT record FROM classes ORDER BY id")
}

func (t fileTable) SaveClass(class taskqueue.Eligibility) error {
	return t.write("INSERT INTO classes VALUES (?, ?) ON CONFLICT DO UPDATE SET record = excluded.record", int64(class.ID), classCodec.Encode(&class))
}

func (t fileTable) DropClasses(ids ...taskqueue.ClassID) error {
	for _, id := range ids {
		if err := t.write("DELETE FROM classes WHERE id = ?", int64(id)); err != nil {
			return err
		}
	}
	return t.writing()
}

func (t fileTable) Garbage(limit int, except ...task.Site) (found []task.Replica, err error) {
	sites := "/" // no site's name has it
	for _, site := range except {
		sites += string(site) + "/"
	}
	err = t.read("SELECT site, url FROM garbage WHERE instr(?, '/' || site || '/') = 0 ORDER BY number LIMIT 0+?", func(row []driver.Value) error {
		found = append(found, task.Replica{Site: task.Site(row[0].(string)), URL: row[1].(string)})
		return nil
	}, sites, atMost(limit))
	return found, err
}

func (t fileTable) AddGarbage(replicas ...task.Replica) error {
	for _, replica := range replicas {
		if err := t.write("INSERT OR IGNORE INTO garbage (site, url) VALUES (?, ?)", string(replica.Site), replica.URL); err != nil {
			return err
		}
	}
	return t.writing()
}

func (t fileTable) DropGarbage(replicas ...task.Replica) error {
	for _, replica := range replicas {
		if err := t.write("DELETE FROM garbage WHERE url = ? AND site = ?", replica.URL, string(replica.Site)); err != nil {
			return err
		}
	}
	return t.writing()
}
