package mem

import (
	"cmp"
	"slices"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

type siteTable struct{ *tx }

func (t siteTable) Load(names ...task.Site) ([]taskqueue.SiteRecord, error) {
	var found []taskqueue.SiteRecord
	for _, name := range names {
		if row, ok := t.sites.get(name); ok {
			found = append(found, cloneSite(*row))
		}
	}
	return found, nil
}

func (t siteTable) Save(saved ...taskqueue.SiteRecord) error {
	if err := t.writing(); err != nil {
		return err
	}
	for _, record := range saved {
		row := cloneSite(record)
		t.sites.set(record.Name, &row)
	}
	return nil
}

func (t siteTable) All() ([]taskqueue.SiteRecord, error) {
	var found []taskqueue.SiteRecord
	t.sites.each(func(_ task.Site, row *taskqueue.SiteRecord) bool {
		found = append(found, cloneSite(*row))
		return true
	})
	return found, nil
}

type grantTable struct{ *tx }

func (t grantTable) Load(ids ...string) ([]taskqueue.Grant, error) {
	var found []taskqueue.Grant
	for _, id := range ids {
		if row, ok := t.grants.get(id); ok {
			found = append(found, *row)
		}
	}
	return found, nil
}

func (t grantTable) Save(saved ...taskqueue.Grant) error {
	if err := t.writing(); err != nil {
		return err
	}
	for _, grant := range saved {
		grant.Created, grant.Expires = grant.Created.UTC(), grant.Expires.UTC()
		t.grants.set(grant.ID, &grant)
	}
	return nil
}

func (t grantTable) All() ([]taskqueue.Grant, error) {
	var found []taskqueue.Grant
	t.grants.each(func(_ string, row *taskqueue.Grant) bool {
		found = append(found, *row)
		return true
	})
	return found, nil
}

func cloneSite(s taskqueue.SiteRecord) taskqueue.SiteRecord {
	s.Created = s.Created.UTC()
	s.Reach = slices.Clone(s.Reach)
	s.MasterAddr = slices.Clone(s.MasterAddr)
	s.History = slices.Clone(s.History)
	for i := range s.History {
		s.History[i].Since = s.History[i].Since.UTC()
	}
	s.Refused = slices.Clone(s.Refused)
	for i := range s.Refused {
		s.Refused[i].Clauses = slices.Clone(s.Refused[i].Clauses)
	}
	s.Sums.DelayBucket = slices.Clone(s.Sums.DelayBucket)
	return s
}

func sortByID(found []taskqueue.Lease) {
	slices.SortFunc(found, func(a, b taskqueue.Lease) int { return cmp.Compare(a.ID, b.ID) })
}
