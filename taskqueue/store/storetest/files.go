package storetest

import (
	"testing"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

func file(name task.LFN, announced []task.Site, replicas ...task.Replica) taskqueue.FileRecord {
	return taskqueue.FileRecord{File: task.File{LFN: name, Size: 7, Announced: announced, Replicas: replicas}}
}

func testFiles(t *testing.T, store taskqueue.Store) {
	a, b := file("w-aaaaaaaaaa:a", nil), file("vo:b", []task.Site{})
	update(t, store, func(tx taskqueue.Tx) error { return tx.Files().Save(a, b) })
	changed := a
	changed.Digest, changed.Lost = digest(4), true
	update(t, store, func(tx taskqueue.Tx) error {
		want(t, "in the order asked", []taskqueue.FileRecord{b, a})(tx.Files().Load(b.LFN, "vo:none", a.LFN))
		return tx.Files().Save(changed)
	})
	update(t, store, func(tx taskqueue.Tx) error {
		want(t, "replaced", []taskqueue.FileRecord{changed})(tx.Files().Load(a.LFN))
		return tx.Files().Delete(a.LFN, "vo:none")
	})
	view(t, store, func(tx taskqueue.Tx) {
		list(t, "deleted", lfnOf, b.LFN)(tx.Files().Load(a.LFN, b.LFN))
	})
}

func testFileList(t *testing.T, store taskqueue.Store) {
	update(t, store, func(tx taskqueue.Tx) error {
		return tx.Files().Save(file("vo:b", nil), file("vo:a", nil), file("vo:a%", nil), file("vo:a/1", nil),
			file("vp:x", nil), file("vo", nil), file("vo:B", nil), file("vo:a_", nil))
	})
	view(t, store, func(tx taskqueue.Tx) {
		files := tx.Files()
		list(t, "all, by bytes", lfnOf, "vo", "vo:B", "vo:a", "vo:a%", "vo:a/1", "vo:a_", "vo:b", "vp:x")(files.List("", "", 10))
		list(t, "prefix", lfnOf, "vo:B", "vo:a", "vo:a%", "vo:a/1", "vo:a_", "vo:b")(files.List("vo:", "", 10))
		list(t, "prefix is no pattern", lfnOf, "vo:a%")(files.List("vo:a%", "", 10))
		list(t, "limit", lfnOf, "vo:B", "vo:a")(files.List("vo:", "", 2))
		list(t, "next page", lfnOf, "vo:a%", "vo:a/1")(files.List("vo:", "vo:a", 2))
		list(t, "after a name that is not there", lfnOf, "vo:b")(files.List("vo:", "vo:aa", 2))
		list(t, "after a name before the prefix", lfnOf, "vo:B")(files.List("vo:", "a", 1))
		list(t, "after a name beyond the prefix", lfnOf)(files.List("vo:", "vp", 9))
		list(t, "limit 0", lfnOf)(files.List("", "", 0))
	})
}

func testOnlyAnnounced(t *testing.T, store taskqueue.Store) {
	replica := task.Replica{Site: "siteA", URL: "file:///se/x"}
	b := file("vo:b", []task.Site{"siteA", "siteB"})
	c := file("vo:c", []task.Site{"siteA"})
	update(t, store, func(tx taskqueue.Tx) error {
		return tx.Files().Save(c, b, file("vo:a", []task.Site{"siteA"}, replica), file("vo:d", nil))
	})
	view(t, store, func(tx taskqueue.Tx) {
		files := tx.Files()
		list(t, "by name", lfnOf, "vo:b", "vo:c")(files.OnlyAnnouncedAt("siteA", "", 10))
		list(t, "limit", lfnOf, "vo:b")(files.OnlyAnnouncedAt("siteA", "", 1))
		list(t, "next page", lfnOf, "vo:c")(files.OnlyAnnouncedAt("siteA", "vo:b", 1))
		list(t, "limit 0", lfnOf)(files.OnlyAnnouncedAt("siteA", "", 0))
		list(t, "another site", lfnOf, "vo:b")(files.OnlyAnnouncedAt("siteB", "", 10))
		list(t, "no such site", lfnOf)(files.OnlyAnnouncedAt("site", "", 10))
	})
	update(t, store, func(tx taskqueue.Tx) error {
		b.Announced = []task.Site{"siteB"}
		c.Replicas = []task.Replica{replica}
		return tx.Files().Save(b, c)
	})
	view(t, store, func(tx taskqueue.Tx) {
		list(t, "withdrawn or stored", lfnOf)(tx.Files().OnlyAnnouncedAt("siteA", "", 10))
		list(t, "still there", lfnOf, "vo:b")(tx.Files().OnlyAnnouncedAt("siteB", "", 10))
	})
	update(t, store, func(tx taskqueue.Tx) error {
		c.Replicas = nil
		return first(tx.Files().Delete(b.LFN), tx.Files().Save(c))
	})
	view(t, store, func(tx taskqueue.Tx) {
		list(t, "replica lost", lfnOf, "vo:c")(tx.Files().OnlyAnnouncedAt("siteA", "", 10))
		list(t, "deleted", lfnOf)(tx.Files().OnlyAnnouncedAt("siteB", "", 10))
	})
}

func testUses(t *testing.T, store taskqueue.Store) {
	update(t, store, func(tx taskqueue.Tx) error {
		files := tx.Files()
		return first(files.AddUses("w-aaaaaaaaaa/b", "vo:x", "vo:y"), files.AddUses("w-aaaaaaaaaa/a", "vo:x"),
			files.AddUses("w-aaaaaaaaaa/b", "vo:x"), files.AddUses("w-aaaaaaaaaa/c"))
	})
	view(t, store, func(tx taskqueue.Tx) {
		want(t, "by id, once each", []task.ID{"w-aaaaaaaaaa/a", "w-aaaaaaaaaa/b"})(tx.Files().Readers("vo:x"))
		want(t, "one reader", []task.ID{"w-aaaaaaaaaa/b"})(tx.Files().Readers("vo:y"))
		want[[]task.ID](t, "no reader", nil)(tx.Files().Readers("vo:"))
	})
}

func testClasses(t *testing.T, store taskqueue.Store) {
	all := taskqueue.Eligibility{ID: 2}
	none := taskqueue.Eligibility{ID: 1, Sites: []task.Site{}}
	two := taskqueue.Eligibility{ID: 300, Sites: []task.Site{"siteA", "siteB"}, Prefer: "siteB"}
	update(t, store, func(tx taskqueue.Tx) error {
		want[[]taskqueue.Eligibility](t, "none yet", nil)(tx.Files().Classes())
		return first(tx.Files().SaveClass(two), tx.Files().SaveClass(all), tx.Files().SaveClass(none))
	})
	two.Prefer = "siteA"
	update(t, store, func(tx taskqueue.Tx) error { return tx.Files().SaveClass(two) })
	view(t, store, func(tx taskqueue.Tx) {
		want(t, "by id; nil stays nil", []taskqueue.Eligibility{none, all, two})(tx.Files().Classes())
	})
	update(t, store, func(tx taskqueue.Tx) error { return tx.Files().DropClasses(300, 1, 7) })
	view(t, store, func(tx taskqueue.Tx) {
		want(t, "dropped", []taskqueue.Eligibility{all})(tx.Files().Classes())
	})
}

func testGarbage(t *testing.T, store taskqueue.Store) {
	x, y := task.Replica{Site: "siteB", URL: "file:///x"}, task.Replica{Site: "siteA", URL: "file:///y"}
	z := task.Replica{Site: "siteA", URL: "file:///x"}
	update(t, store, func(tx taskqueue.Tx) error { return first(tx.Files().AddGarbage(y), tx.Files().AddGarbage(x, z, y)) })
	update(t, store, func(tx taskqueue.Tx) error {
		want(t, "first added first, once", []task.Replica{y, x, z})(tx.Files().Garbage(10))
		want(t, "limit", []task.Replica{y})(tx.Files().Garbage(1))
		want[[]task.Replica](t, "limit 0", nil)(tx.Files().Garbage(0))
		want(t, "but for a site", []task.Replica{x})(tx.Files().Garbage(10, "siteA"))
		want[[]task.Replica](t, "but for all sites", nil)(tx.Files().Garbage(10, "siteA", "siteB"))
		return tx.Files().DropGarbage(x, task.Replica{Site: "siteB", URL: "file:///y"})
	})
	view(t, store, func(tx taskqueue.Tx) {
		want(t, "the rest", []task.Replica{y, z})(tx.Files().Garbage(10))
	})
}
