package tables

import (
	"cmp"
	"math"
	"slices"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/internal/record"
)

type leaseTable struct{ *tx }

var leaseKind = kind[taskqueue.Lease]{
	table: leases, codec: record.New[taskqueue.Lease](),
	key: func(l *taskqueue.Lease) key { return number(l.ID) },
	indexes: []index[taskqueue.Lease]{
		{leasesBySite, func(_ uint64, l *taskqueue.Lease) key { return text(l.Site).number(uint64(l.ID)) }},
		{leasesByExpiry, func(_ uint64, l *taskqueue.Lease) key { return key(nil).signed(int64(l.Expires)).number(uint64(l.ID)) }},
		{leasesByPilot, func(_ uint64, l *taskqueue.Lease) key {
			if l.Pilot == "" {
				return nil
			}
			return text(l.Pilot).number(uint64(l.ID))
		}},
	},
}

func leaseKeys(ids []task.LeaseID) [][]byte {
	keys := make([][]byte, len(ids))
	for i, id := range ids {
		keys[i] = number(id)
	}
	return keys
}

func (t leaseTable) Load(ids ...task.LeaseID) ([]taskqueue.Lease, error) {
	return leaseKind.load(t.tx, leaseKeys(ids)...)
}

func (t leaseTable) Save(leases ...taskqueue.Lease) error { return leaseKind.save(t.tx, leases...) }

func (t leaseTable) Delete(ids ...task.LeaseID) error {
	return leaseKind.remove(t.tx, leaseKeys(ids)...)
}

func (t leaseTable) OfSite(site task.Site) ([]taskqueue.Lease, error) {
	return leaseKind.by(t.tx, leasesBySite, under(text(site)), math.MaxInt)
}

func (t leaseTable) OfPilot(pilot task.PilotID) ([]taskqueue.Lease, error) {
	return leaseKind.by(t.tx, leasesByPilot, under(text(pilot)), math.MaxInt)
}

func (t leaseTable) ExpiredBy(now taskqueue.Instant) ([]taskqueue.Lease, error) {
	found, err := leaseKind.by(t.tx, leasesByExpiry, Span{Before: beyond(key(nil).signed(int64(now)))}, math.MaxInt)
	slices.SortFunc(found, func(a, b taskqueue.Lease) int { return cmp.Compare(a.ID, b.ID) })
	return found, err
}

var revocationKind = kind[taskqueue.Revocation]{
	table: revocations, codec: record.New[taskqueue.Revocation](),
	key: func(r *taskqueue.Revocation) key { return text(r.Site).number(uint64(r.Lease)).text(string(r.Task)) },
}

func (t leaseTable) Revocations(site task.Site, leases ...task.LeaseID) (found []taskqueue.Revocation, err error) {
	if len(leases) == 0 {
		return bare(revocationKind.scan(t.tx, under(text(site)), math.MaxInt))
	}
	for _, id := range slices.Compact(slices.Sorted(slices.Values(leases))) {
		some, err := bare(revocationKind.scan(t.tx, under(text(site).number(uint64(id))), math.MaxInt))
		if err != nil {
			return nil, err
		}
		found = append(found, some...)
	}
	return found, nil
}

func (t leaseTable) Revoke(revocations ...taskqueue.Revocation) error {
	return revocationKind.save(t.tx, revocations...)
}

func (t leaseTable) Confirm(revocations ...taskqueue.Revocation) error {
	keys := make([][]byte, len(revocations))
	for i := range revocations {
		keys[i] = revocationKind.key(&revocations[i])
	}
	return revocationKind.remove(t.tx, keys...)
}
