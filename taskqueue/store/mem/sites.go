package mem

import (
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

type siteTable struct{ *tx }

func (t siteTable) Load(names ...task.Site) ([]taskqueue.SiteRecord, error) {
	return lookUp(names, t.sites.get, siteCopy), nil
}

func (t siteTable) Save(saved ...taskqueue.SiteRecord) error {
	if err := t.writing(); err != nil {
		return err
	}
	for i := range saved {
		t.sites.set(saved[i].Name, siteCopy.saved(&saved[i]))
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
	return lookUp(ids, t.grants.get, grantCopy), nil
}

func (t grantTable) Save(saved ...taskqueue.Grant) error {
	if err := t.writing(); err != nil {
		return err
	}
	for i := range saved {
		t.grants.set(saved[i].ID, grantCopy.saved(&saved[i]))
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
