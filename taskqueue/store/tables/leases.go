package tables

import (
	"cmp"
	"slices"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/internal/record"
)

type leaseTable struct {
	records[task.LeaseID, taskqueue.Lease]
}

var leaseKind = kind[task.LeaseID, taskqueue.Lease]{
	table: leases, codec: record.New[taskqueue.Lease](), often: true,
	id: func(l *taskqueue.Lease) task.LeaseID { return l.ID }, key: number[task.LeaseID],
	indexes: []index[taskqueue.Lease]{
		{leasesBySite, func(_ uint64, l *taskqueue.Lease) []key { return []key{text(l.Site).number(uint64(l.ID))} }},
		{leasesByExpiry, func(_ uint64, l *taskqueue.Lease) []key {
			return []key{key(nil).signed(int64(l.Expires)).number(uint64(l.ID))}
		}},
		{leasesByPilot, func(_ uint64, l *taskqueue.Lease) []key {
			if l.Pilot == "" {
				return nil
			}
			return []key{text(l.Pilot).number(uint64(l.ID))}
		}},
	},
}

func (t leaseTable) OfSite(site task.Site) ([]taskqueue.Lease, error) {
	return t.by(leasesBySite, under(text(site)), noLimit)
}

func (t leaseTable) OfPilot(pilot task.PilotID) ([]taskqueue.Lease, error) {
	return t.by(leasesByPilot, under(text(pilot)), noLimit)
}

func (t leaseTable) ExpiredBy(now taskqueue.Instant) ([]taskqueue.Lease, error) {
	found, err := t.by(leasesByExpiry, Span{Before: beyond(key(nil).signed(int64(now)))}, noLimit)
	slices.SortFunc(found, func(a, b taskqueue.Lease) int { return cmp.Compare(a.ID, b.ID) })
	return found, err
}

// A revocation's key is itself without Pilot and Cancel.
var revocationKind = kind[taskqueue.Revocation, taskqueue.Revocation]{
	table: revocations, codec: record.New[taskqueue.Revocation](),
	id:  func(r *taskqueue.Revocation) taskqueue.Revocation { return *r },
	key: revocationKey,
	indexes: []index[taskqueue.Revocation]{
		{revocationsByPilot, func(_ uint64, r *taskqueue.Revocation) []key {
			if r.Pilot == "" {
				return nil
			}
			return []key{append(text(r.Pilot), revocationKey(*r)...)}
		}},
	},
}

func revocationKey(r taskqueue.Revocation) key {
	return text(r.Site).number(uint64(r.Lease)).text(string(r.Task))
}

func (t leaseTable) revocations() records[taskqueue.Revocation, taskqueue.Revocation] {
	return records[taskqueue.Revocation, taskqueue.Revocation]{t.tx, &revocationKind}
}

func (t leaseTable) Revocations(site task.Site, leases ...task.LeaseID) (found []taskqueue.Revocation, err error) {
	if len(leases) == 0 {
		return t.revocations().scan(under(text(site)), noLimit)
	}
	for _, id := range slices.Compact(slices.Sorted(slices.Values(leases))) {
		some, err := t.revocations().scan(under(text(site).number(uint64(id))), noLimit)
		if err != nil {
			return nil, err
		}
		found = append(found, some...)
	}
	return found, nil
}

func (t leaseTable) RevocationsOf(pilot task.PilotID) ([]taskqueue.Revocation, error) {
	return t.revocations().by(revocationsByPilot, under(text(pilot)), noLimit)
}

func (t leaseTable) Revoke(revocations ...taskqueue.Revocation) error {
	return t.revocations().Save(revocations...)
}

func (t leaseTable) Confirm(revocations ...taskqueue.Revocation) error {
	return t.revocations().Delete(revocations...)
}
