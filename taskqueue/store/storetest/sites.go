package storetest

import (
	"testing"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

func testSites(t *testing.T, store taskqueue.Store) {
	b := taskqueue.SiteRecord{Name: "siteB", SiteSettings: taskqueue.SiteSettings{SE: "file:///b"}}
	a := taskqueue.SiteRecord{Name: "siteA", SiteSettings: taskqueue.SiteSettings{Reach: []task.Site{}}}
	update(t, store, func(tx taskqueue.Tx) error { return tx.Sites().Save(b, a) })
	b.Draining = true
	update(t, store, func(tx taskqueue.Tx) error { return tx.Sites().Save(b) })
	view(t, store, func(tx taskqueue.Tx) {
		want(t, "by name; nil and empty differ", []taskqueue.SiteRecord{a, b})(tx.Sites().All())
		want(t, "in the order asked", []taskqueue.SiteRecord{b, a})(tx.Sites().Load("siteB", "site", "siteA"))
	})
	update(t, store, func(tx taskqueue.Tx) error { return tx.Sites().Delete("siteA", "site") })
	view(t, store, func(tx taskqueue.Tx) {
		want(t, "one deleted", []taskqueue.SiteRecord{b})(tx.Sites().All())
	})
}

func testPilots(t *testing.T, store taskqueue.Store) {
	a := taskqueue.PilotRecord{ID: "p-aaaaaaaa", Peer: "peer", Site: "siteA", State: taskqueue.PilotAlive}
	b := taskqueue.PilotRecord{ID: "p-bbbbbbbb", Peer: "other", Site: "siteA", State: taskqueue.PilotDead}
	update(t, store, func(tx taskqueue.Tx) error { return tx.Pilots().Save(b, a) })
	a.Drain = true
	update(t, store, func(tx taskqueue.Tx) error { return tx.Pilots().Save(a) })
	view(t, store, func(tx taskqueue.Tx) {
		want(t, "in the order asked, replaced", []taskqueue.PilotRecord{a, b})(tx.Pilots().Load(a.ID, "p-cccccccc", b.ID))
	})
}

func testPilotScans(t *testing.T, store taskqueue.Store) {
	pilot := func(id task.PilotID, peer task.PeerID, site task.Site, state taskqueue.PilotState) taskqueue.PilotRecord {
		return taskqueue.PilotRecord{ID: id, Peer: peer, Site: site, State: state}
	}
	const a, b, c, d = task.PilotID("p-aaaaaaaa"), task.PilotID("p-bbbbbbbb"), task.PilotID("p-cccccccc"), task.PilotID("p-dddddddd")
	update(t, store, func(tx taskqueue.Tx) error {
		return tx.Pilots().Save(pilot(d, "x", "siteA", taskqueue.PilotAlive), pilot(c, "y", "siteB", taskqueue.PilotAlive),
			pilot(b, "y", "siteA", taskqueue.PilotDead), pilot(a, "y", "siteA", taskqueue.PilotDraining))
	})
	view(t, store, func(tx taskqueue.Tx) {
		pilots := tx.Pilots()
		list(t, "of site, by id", pilotOf, a, b, d)(pilots.OfSite("siteA"))
		list(t, "in states", pilotOf, a, d)(pilots.OfSite("siteA", taskqueue.PilotDraining, taskqueue.PilotAlive, taskqueue.PilotAlive))
		list(t, "every site", pilotOf, a, b, c, d)(pilots.OfSite(""))
		list(t, "every site, alive", pilotOf, c, d)(pilots.OfSite("", taskqueue.PilotAlive))
		list(t, "no such site", pilotOf)(pilots.OfSite("site"))
		want(t, "ids of site", []task.PilotID{a, d})(pilots.IDsOfSite("siteA", taskqueue.PilotDraining, taskqueue.PilotAlive))
		want(t, "ids of every site", []task.PilotID{a, b, c, d})(pilots.IDsOfSite(""))
		want[[]task.PilotID](t, "ids of no such site", nil)(pilots.IDsOfSite("site"))
		want(t, "newest of a peer", a)(pilots.ByPeer("y"))
		want(t, "unknown peer", task.PilotID(""))(pilots.ByPeer("z"))
	})
	update(t, store, func(tx taskqueue.Tx) error {
		return tx.Pilots().Save(pilot(c, "y", "siteB", taskqueue.PilotLeft), pilot(a, "x", "siteA", taskqueue.PilotDead))
	})
	view(t, store, func(tx taskqueue.Tx) {
		list(t, "in states after changes", pilotOf, d)(tx.Pilots().OfSite("", taskqueue.PilotAlive, taskqueue.PilotDraining))
		want(t, "newest by first save", b)(tx.Pilots().ByPeer("y"))
		want(t, "moved to another peer", a)(tx.Pilots().ByPeer("x"))
		list(t, "all, by id", pilotOf, a, b, c, d)(tx.Pilots().List("", 10))
		list(t, "limit", pilotOf, a, b)(tx.Pilots().List("", 2))
		list(t, "next page", pilotOf, c, d)(tx.Pilots().List(b, 2))
		list(t, "after an id that is not there", pilotOf, d)(tx.Pilots().List("p-ccccccccc", 2))
		list(t, "limit 0", pilotOf)(tx.Pilots().List("", 0))
	})
	update(t, store, func(tx taskqueue.Tx) error { return tx.Pilots().Delete(b, a, "p-eeeeeeee") })
	view(t, store, func(tx taskqueue.Tx) {
		pilots := tx.Pilots()
		list(t, "deleted", pilotOf, d)(pilots.Load(a, b, d))
		list(t, "left after deletion", pilotOf, c, d)(pilots.List("", 10))
		list(t, "of site after deletion", pilotOf, d)(pilots.OfSite("siteA"))
		want(t, "an older pilot of the peer", c)(pilots.ByPeer("y"))
		want(t, "the only other of the peer", d)(pilots.ByPeer("x"))
	})
	update(t, store, func(tx taskqueue.Tx) error { return tx.Pilots().Save(pilot(b, "y", "siteA", taskqueue.PilotAlive)) })
	view(t, store, func(tx taskqueue.Tx) {
		want(t, "saved anew, it is the newest", b)(tx.Pilots().ByPeer("y"))
	})
}

func testGrants(t *testing.T, store taskqueue.Store) {
	b := taskqueue.Grant{ID: "b", Role: "submit", Hash: [32]byte{1, 31: 2}}
	a := taskqueue.Grant{ID: "a", Role: "admin"}
	update(t, store, func(tx taskqueue.Tx) error { return tx.Grants().Save(b, a) })
	b.Revoked = true
	update(t, store, func(tx taskqueue.Tx) error { return tx.Grants().Save(b) })
	view(t, store, func(tx taskqueue.Tx) {
		want(t, "by id", []taskqueue.Grant{a, b})(tx.Grants().All())
		want(t, "in the order asked", []taskqueue.Grant{b, a})(tx.Grants().Load("b", "c", "a"))
	})
}
