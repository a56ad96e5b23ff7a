package sqlite

import (
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

type siteTable struct{ *tx }

func (t siteTable) Load(names ...task.Site) ([]taskqueue.SiteRecord, error) {
	return load(t.tx, siteCodec, "SELECT record FROM sites WHERE name = ?", names)
}

func (t siteTable) Save(sites ...taskqueue.SiteRecord) error {
	for _, s := range sites {
		err := t.write("INSERT INTO sites VALUES (?, ?) ON CONFLICT DO UPDATE SET record = excluded.record", string(s.Name), siteCodec.Encode(&s))
		if err != nil {
			return err
		}
	}
	return t.writing()
}

func (t siteTable) Delete(names ...task.Site) error {
	for _, name := range names {
		if err := t.write("DELETE FROM sites WHERE name = ?", string(name)); err != nil {
			return err
		}
	}
	return t.writing()
}

func (t siteTable) All() ([]taskqueue.SiteRecord, error) {
	return records(t.tx, siteCodec, "SELECT record FROM sites ORDER BY name")
}

type grantTable struct{ *tx }

func (t grantTable) Load(ids ...string) ([]taskqueue.Grant, error) {
	return load(t.tx, grantCodec, "SELECT record FROM grants WHERE id = ?", ids)
}

func (t grantTable) Save(grants ...taskqueue.Grant) error {
	for _, g := range grants {
		err := t.write("INSERT INTO grants VALUES (?, ?) ON CONFLICT DO UPDATE SET record = excluded.record", g.ID, grantCodec.Encode(&g))
		if err != nil {
			return err
		}
	}
	return t.writing()
}

func (t grantTable) All() ([]taskqueue.Grant, error) {
	return records(t.tx, grantCodec, "SELECT record FROM grants ORDER BY id")
}
