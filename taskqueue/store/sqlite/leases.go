package sqlite

import (
	"slices"

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
		if err := t.holder(lease.ID, lease.Pilot); err != nil {
			return err
		}
	}
	return t.writing()
}

// holder keeps which pilot holds a lease.
func (t leaseTable) holder(id task.LeaseID, pilot task.PilotID) error {
	if pilot == "" {
		return t.write("DELETE FROM lease_holders WHERE lease = ?", int64(id))
	}
	return t.write("INSERT INTO lease_holders VALUES (?, ?) ON CONFLICT DO UPDATE SET pilot = excluded.pilot", int64(id), string(pilot))
}

func (t leaseTable) Delete(ids ...task.LeaseID) error {
	for _, id := range ids {
		if err := t.write("DELETE FROM leases WHERE id = ?", int64(id)); err != nil {
			return err
		}
		if err := t.holder(id, ""); err != nil {
			return err
		}
	}
	return t.writing()
}

func (t leaseTable) OfSite(site task.Site) ([]taskqueue.Lease, error) {
	return records(t.tx, leaseCodec, "SELECT record FROM leases WHERE site = ? ORDER BY id", string(site))
}

func (t leaseTable) OfPilot(pilot task.PilotID) ([]taskqueue.Lease, error) {
	return records(t.tx, leaseCodec, `SELECT record FROM lease_holders INDEXED BY lease_holders_by_pilot
		JOIN leases ON leases.id = lease_holders.lease WHERE pilot = ? ORDER BY lease`, string(pilot))
}

func (t leaseTable) ExpiredBy(now taskqueue.Instant) ([]taskqueue.Lease, error) {
	return records(t.tx, leaseCodec, "SELECT record FROM leases INDEXED BY leases_by_expiry WHERE expires <= ? ORDER BY id", int64(now))
}

func (t leaseTable) Revocations(site task.Site, leases ...task.LeaseID) (found []taskqueue.Revocation, err error) {
	if len(leases) == 0 {
		return records(t.tx, revocationCodec, "SELECT record FROM revocations WHERE site = ? ORDER BY lease, task", string(site))
	}
	for _, id := range slices.Compact(slices.Sorted(slices.Values(leases))) {
		found, err = appendRecords(found, t.tx, revocationCodec,
			"SELECT record FROM revocations WHERE site = ? AND lease = ? ORDER BY task", string(site), int64(id))
		if err != nil {
			return nil, err
		}
	}
	return found, nil
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
