package sqlite

import (
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

type leaseTable struct{ *tx }

func (t leaseTable) Load(ids ...task.LeaseID) (found []taskqueue.Lease, err error) {
	for _, id := range ids {
		if found, err = appendRecords(found, t.tx, leaseCodec, "SELECT record FROM leases WHERE id = ?", int64(id)); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (t leaseTable) Save(leases ...taskqueue.Lease) error {
	for _, lease := range leases {
		err := t.write(`INSERT INTO leases VALUES (?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET site = excluded.site, expires = excluded.expires, record = excluded.record`,
			int64(lease.ID), string(lease.Site), int64(lease.Expires), leaseCodec.Encode(&lease))
		if err != nil {
			return err
		}
	}
	return t.writing()
}

func (t leaseTable) Delete(ids ...task.LeaseID) error {
	for _, id := range ids {
		if err := t.write("DELETE FROM leases WHERE id = ?", int64(id)); err != nil {
			return err
		}
	}
	return t.writing()
}

func (t leaseTable) OfSite(site task.Site) ([]taskqueue.Lease, error) {
	return records(t.tx, leaseCodec, "SELECT record FROM leases WHERE site = ? ORDER BY id", string(site))
}

func (t leaseTable) ExpiredBy(now taskqueue.Instant) ([]taskqueue.Lease, error) {
	return records(t.tx, leaseCodec, "SELECT record FROM leases INDEXED BY leases_by_expiry WHERE expires <= ? ORDER BY id", int64(now))
}

func (t leaseTable) Revocations(site task.Site) ([]taskqueue.Revocation, error) {
	return records(t.tx, revocationCodec, "SELECT record FROM revocations WHERE site = ? ORDER BY lease, task", string(site))
}

func (t leaseTable) Revoke(revocations ...taskqueue.Revocation) error {
	for _, r := range revocations {
		err := t.write("INSERT INTO revocations VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET record = excluded.record",
			string(r.Site), int64(r.Lease), string(r.Task), revocationCodec.Encode(&r))
		if err != nil {
			return err
		}
	}
	return t.writing()
}

func (t leaseTable) Confirm(revocations ...taskqueue.Revocation) error {
	for _, r := range revocations {
		err := t.write("DELETE FROM revocations WHERE site = ? AND lease = ? AND task = ?", string(r.Site), int64(r.Lease), string(r.Task))
		if err != nil {
			return err
		}
	}
	return t.writing()
}
