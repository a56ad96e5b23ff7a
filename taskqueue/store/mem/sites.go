package mem

import (
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

type siteTable struct{ *tx }

func (t siteTable) Load(names ...task.Site) ([]taskqueue.SiteRecord, error) {
	var found []*taskqueue.SiteRecord
	for _, name := range names {
		if row, ok := t.sites.get(name); ok {
			found = append(found, row)
		}
	}
	return siteCopy.list(found), nil
}

func (t siteTable) Save(saved ...taskqueue.SiteRecord) error {
	if err := t.writing(); err != nil {
		return err
	}
	for _, record := range saved {
		row := siteCopy.saved(record)
		t.sites.set(record.Name, &row)
	}
	return nil
}

func (t siteTable) Delete(names ...task.Site) error {
	if err := t.writing(); err != nil {
		return err
	}
	for _, name := range names {
		t.sites.remove(name)
	}
	return nil
}

func (t siteTable) All() ([]taskqueue.SiteRecord, error) {
	var found []*taskqueue.SiteRecord
	t.sites.each(func(_ task.Site, row *taskqueue.SiteRecord) bool {
		found = append(found, row)
		return true
	})
	return siteCopy.list(found), nil
}

type grantTable struct{ *tx }

func (t grantTable) Load(ids ...string) ([]taskqueue.Grant, error) {
	var found []*taskqueue.Grant
	for _, id := range ids {
		if row, ok := t.grants.get(id); ok {
			found = append(found, row)
		}
	}
	return grantCopy.list(found), nil
}

func (t grantTable) Save(saved ...taskqueue.Grant) error {
	if err := t.writing(); err != nil {
		return err
	}
	for _, grant := range saved {
		grant = grantCopy.saved(grant)
		t.grants.set(grant.ID, &grant)
	}
	return nil
}

func (t grantTable) All() ([]taskqueue.Grant, error) {
	var found []*taskqueue.Grant
	t.grants.each(func(_ string, row *taskqueue.Grant) bool {
		found = append(found, row)
		return true
	})
	return grantCopy.list(found), nil
}
