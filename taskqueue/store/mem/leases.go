package mem

import (
	"cmp"
	"slices"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

type leases struct {
	rows    table[task.LeaseID, *taskqueue.Lease]
	bySite  index[taskqueue.Lease]
	byPilot index[taskqueue.Lease]
	expiry  index[taskqueue.Lease]
	revoked index[taskqueue.Revocation]
}

func newLeases() leases {
	return leases{
		rows: newTable[task.LeaseID, *taskqueue.Lease](),
		bySite: newIndex(func(a, b *taskqueue.Lease) bool {
			if a.Site != b.Site {
				return a.Site < b.Site
			}
			return a.ID < b.ID
		}, nil),
		byPilot: newIndex(func(a, b *taskqueue.Lease) bool {
			if a.Pilot != b.Pilot {
				return a.Pilot < b.Pilot
			}
			return a.ID < b.ID
		}, func(l *taskqueue.Lease) bool { return l.Pilot != "" }),
		expiry: newIndex(func(a, b *taskqueue.Lease) bool {
			if a.Expires != b.Expires {
				return a.Expires < b.Expires
			}
			return a.ID < b.ID
		}, nil),
		revoked: newIndex(func(a, b *taskqueue.Revocation) bool {
			if a.Site != b.Site {
				return a.Site < b.Site
			}
			if a.Lease != b.Lease {
				return a.Lease < b.Lease
			}
			return a.Task < b.Task
		}, nil),
	}
}

func (l leases) copy() leases {
	return leases{l.rows.copy(), l.bySite.copy(), l.byPilot.copy(), l.expiry.copy(), l.revoked.copy()}
}

func (l leases) replace(before, after *taskqueue.Lease) {
	l.bySite.replace(before, after)
	l.byPilot.replace(before, after)
	l.expiry.replace(before, after)
}

type leaseTable struct{ *tx }

func (t leaseTable) Load(ids ...task.LeaseID) ([]taskqueue.Lease, error) {
	return lookUp(ids, t.leases.rows.get, leaseCopy), nil
}

func (t leaseTable) Save(saved ...taskqueue.Lease) error {
	if err := t.writing(); err != nil {
		return err
	}
	for i := range saved {
		row := leaseCopy.saved(&saved[i])
		t.leases.replace(t.leases.rows.set(row.ID, row), row)
	}
	return nil
}

func (t leaseTable) Delete(ids ...task.LeaseID) error {
	if err := t.writing(); err != nil {
		return err
	}
	for _, id := range ids {
		t.leases.replace(t.leases.rows.remove(id), nil)
	}
	return nil
}

func (t leaseTable) OfSite(site task.Site) ([]taskqueue.Lease, error) {
	var found []*taskqueue.Lease
	t.leases.bySite.from(&taskqueue.Lease{Site: site}, func(row *taskqueue.Lease) bool {
		if row.Site != site {
			return false
		}
		found = append(found, row)
		return true
	})
	return leaseCopy.list(found), nil
}

func (t leaseTable) OfPilot(pilot task.PilotID) ([]taskqueue.Lease, error) {
	var found []*taskqueue.Lease
	t.leases.byPilot.from(&taskqueue.Lease{Pilot: pilot}, func(row *taskqueue.Lease) bool {
		if row.Pilot != pilot {
			return false
		}
		found = append(found, row)
		return true
	})
	return leaseCopy.list(found), nil
}

func (t leaseTable) ExpiredBy(now taskqueue.Instant) ([]taskqueue.Lease, error) {
	var found []*taskqueue.Lease
	t.leases.expiry.tree.Scan(func(row *taskqueue.Lease) bool {
		if row.Expires > now {
			return false
		}
		found = append(found, row)
		return true
	})
	slices.SortFunc(found, func(a, b *taskqueue.Lease) int { return cmp.Compare(a.ID, b.ID) })
	return leaseCopy.list(found), nil
}

func (t leaseTable) Revocations(site task.Site, leases ...task.LeaseID) ([]taskqueue.Revocation, error) {
	var found []taskqueue.Revocation
	from := func(first *taskqueue.Revocation, wanted func(*taskqueue.Revocation) bool) {
		t.leases.revoked.from(first, func(row *taskqueue.Revocation) bool {
			if row.Site != site || !wanted(row) {
				return false
			}
			found = append(found, *row)
			return true
		})
	}
	if len(leases) == 0 {
		from(&taskqueue.Revocation{Site: site}, func(*taskqueue.Revocation) bool { return true })
	}
	for _, id := range slices.Compact(slices.Sorted(slices.Values(leases))) {
		from(&taskqueue.Revocation{Site: site, Lease: id}, func(row *taskqueue.Revocation) bool { return row.Lease == id })
	}
	return found, nil
}

func (t leaseTable) Revoke(revocations ...taskqueue.Revocation) error {
	if err := t.writing(); err != nil {
		return err
	}
	for _, revocation := range revocations {
		t.leases.revoked.tree.Set(&revocation)
	}
	return nil
}

func (t leaseTable) Confirm(revocations ...taskqueue.Revocation) error {
	if err := t.writing(); err != nil {
		return err
	}
	for _, revocation := range revocations {
		t.leases.revoked.tree.Delete(&revocation)
	}
	return nil
}
