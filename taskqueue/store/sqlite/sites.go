package sqlite

import (
	"slices"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

type siteTable struct{ *tx }

func (t siteTable) Load(names ...task.Site) ([]taskqueue.SiteRecord, error) {
	return load[taskqueue.SiteRecord](t.tx, "SELECT record FROM sites WHERE name = ?", names)
}

func (t siteTable) Save(sites ...taskqueue.SiteRecord) error {
	for _, s := range sites {
		s.Created = s.Created.UTC()
		s.History = slices.Clone(s.History)
		for i := range s.History {
			s.History[i].Since = s.History[i].Since.UTC()
		}
		record, err := encode(s)
		if err != nil {
			return t.fail(err)
		}
		err = t.write("INSERT INTO sites VALUES (?, ?) ON CONFLICT DO UPDATE SET record = excluded.record", string(s.Name), record)
		if err != nil {
			return err
		}
	}
	return t.writing()
}

func (t siteTable) All() ([]taskqueue.SiteRecord, error) {
	return records[taskqueue.SiteRecord](t.tx, "SELECT record FROM sites ORDER BY name")
}

type grantTable struct{ *tx }

func (t grantTable) Load(ids ...string) ([]taskqueue.Grant, error) {
	return load[taskqueue.Grant](t.tx, "SELECT record FROM grants WHERE id = ?", ids)
}

func (t grantTable) Save(grants ...taskqueue.Grant) error {
	for _, g := range grants {
		g.Created, g.Expires = g.Created.UTC(), g.Expires.UTC()
		record, err := encode(g)
		if err != nil {
			return t.fail(err)
		}
		err = t.write("INSERT INTO grants VALUES (?, ?) ON CONFLICT DO UPDATE SET record = excluded.record", g.ID, record)
		if err != nil {
			return err
		}
	}
	return t.writing()
}

func (t grantTable) All() ([]taskqueue.Grant, error) {
	return records[taskqueue.Grant](t.tx, "SELECT record FROM grants ORDER BY id")
}
