package storetest

import (
	"testing"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

func testLeases(t *testing.T, store taskqueue.Store) {
	lease := func(id task.LeaseID, site task.Site, expires taskqueue.Instant) taskqueue.Lease {
		return taskqueue.Lease{ID: id, Site: site, Expires: expires, Term: task.Term{Epoch: 1, Peer: "peer"}, Open: 3}
	}
	one, two, ten := lease(1, "siteB", 50), lease(2, "siteA", 70), lease(10, "siteB", 30)
	update(t, store, func(tx taskqueue.Tx) error { return tx.Leases().Save(ten, two, one) })
	update(t, store, func(tx taskqueue.Tx) error {
		leases := tx.Leases()
		want(t, "in the order asked", []taskqueue.Lease{ten, one})(leases.Load(10, 3, 1))
		list(t, "of site, by id", leaseOf, 1, 10)(leases.OfSite("siteB"))
		list(t, "of no site", leaseOf)(leases.OfSite("site"))
		list(t, "none expired", leaseOf)(leases.ExpiredBy(29))
		list(t, "one expired", leaseOf, 10)(leases.ExpiredBy(30))
		list(t, "expired, by id", leaseOf, 1, 10)(leases.ExpiredBy(69))
		ten.Expires, one.Site, ten.Pilot = 90, "siteA", "p-aaaaaaaa"
		return leases.Save(ten, one)
	})
	update(t, store, func(tx taskqueue.Tx) error {
		list(t, "renewed", leaseOf, 1)(tx.Leases().ExpiredBy(60))
		list(t, "moved", leaseOf, 10)(tx.Leases().OfSite("siteB"))
		list(t, "moved here", leaseOf, 1, 2)(tx.Leases().OfSite("siteA"))
		list(t, "of a pilot", leaseOf, 10)(tx.Leases().OfPilot("p-aaaaaaaa"))
		list(t, "of nobody", leaseOf)(tx.Leases().OfPilot(""))
		ten.Pilot, two.Pilot = "", "p-aaaaaaaa"
		if err := tx.Leases().Save(ten, two); err != nil {
			return err
		}
		return tx.Leases().Delete(1, 4)
	})
	view(t, store, func(tx taskqueue.Tx) {
		list(t, "deleted", leaseOf, 2)(tx.Leases().OfSite("siteA"))
		list(t, "another one of the pilot", leaseOf, 2)(tx.Leases().OfPilot("p-aaaaaaaa"))
		list(t, "deleted does not expire", leaseOf, 2, 10)(tx.Leases().ExpiredBy(1000))
	})
}

func testRevocations(t *testing.T, store taskqueue.Store) {
	a := taskqueue.Revocation{Site: "siteA", Lease: 10, Task: "w-aaaaaaaaaa/a"}
	b := taskqueue.Revocation{Site: "siteA", Lease: 9, Task: "w-aaaaaaaaaa/b", Cancel: true}
	c := taskqueue.Revocation{Site: "siteA", Lease: 9, Task: "w-aaaaaaaaaa/a"}
	other := taskqueue.Revocation{Site: "siteB", Lease: 9, Task: "w-aaaaaaaaaa/a"}
	update(t, store, func(tx taskqueue.Tx) error { return tx.Leases().Revoke(a, b, c, other) })
	cancel := c
	cancel.Cancel = true
	update(t, store, func(tx taskqueue.Tx) error {
		want(t, "by lease, then task", []taskqueue.Revocation{c, b, a})(tx.Leases().Revocations("siteA"))
		want(t, "another site", []taskqueue.Revocation{other})(tx.Leases().Revocations("siteB"))
		want[[]taskqueue.Revocation](t, "no site", nil)(tx.Leases().Revocations("siteC"))
		want(t, "of a lease", []taskqueue.Revocation{c, b})(tx.Leases().Revocations("siteA", 9, 7, 9))
		want(t, "of two leases", []taskqueue.Revocation{c, b, a})(tx.Leases().Revocations("siteA", 10, 9))
		return tx.Leases().Revoke(cancel)
	})
	update(t, store, func(tx taskqueue.Tx) error {
		want(t, "replaced", []taskqueue.Revocation{cancel, b, a})(tx.Leases().Revocations("siteA"))
		b.Cancel = false // not part of what names it
		return tx.Leases().Confirm(b, taskqueue.Revocation{Site: "siteA", Lease: 9, Task: "w-aaaaaaaaaa/c"})
	})
	view(t, store, func(tx taskqueue.Tx) {
		want(t, "confirmed", []taskqueue.Revocation{cancel, a})(tx.Leases().Revocations("siteA"))
		want(t, "of the other site stays", []taskqueue.Revocation{other})(tx.Leases().Revocations("siteB"))
	})
}
