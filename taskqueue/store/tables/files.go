package tables

import (
	"slices"
	"strings"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/internal/record"
)

type fileTable struct {
	records[task.LFN, taskqueue.FileRecord]
}

var fileKind = kind[task.LFN, taskqueue.FileRecord]{
	table: files, codec: record.New[taskqueue.FileRecord](),
	id:  func(f *taskqueue.FileRecord) task.LFN { return f.LFN },
	key: func(name task.LFN) key { return key(name) },
	indexes: []index[taskqueue.FileRecord]{
		{announced, func(_ uint64, f *taskqueue.FileRecord) (keys []key) {
			if len(f.Replicas) > 0 {
				return nil
			}
			for _, site := range f.Announced {
				keys = append(keys, text(site).text(string(f.LFN)))
			}
			return keys
		}},
		{foreignCopies, func(_ uint64, f *taskqueue.FileRecord) (keys []key) {
			for _, replica := range f.Replicas {
				name := task.CopyName(replica.URL)
				if name != "" && task.StoredFile(name) != f.LFN {
					keys = append(keys, text(name).text(string(f.LFN)))
				}
			}
			return keys
		}},
	},
}

func (t fileTable) Foreign(url string) (names []task.LFN, err error) {
	name := task.CopyName(url)
	if name == "" {
		return nil, t.usable()
	}
	err = t.tx.scan(foreignCopies, under(text(name)), func(row Row) (bool, error) {
		at := parts{rest: row.Key}
		at.text()
		names = append(names, task.LFN(at.text()))
		return true, at.err
	})
	return names, err
}

func (t fileTable) AddUses(reader task.ID, used ...task.LFN) error {
	for _, name := range used {
		t.put(uses, text(name).text(string(reader)), nil)
		t.put(usesByReader, text(reader).text(string(name)), nil)
	}
	return t.writing()
}

// dropUse forgets what a row of usesByReader says elsewhere.
func (t fileTable) dropUse(row Row) error {
	at := parts{rest: row.Key}
	reader, name := at.text(), at.text()
	t.drop(uses, text(name).text(reader))
	return at.err
}

func (t fileTable) Readers(name task.LFN) (readers []task.ID, err error) {
	err = t.tx.scan(uses, under(text(name)), func(row Row) (bool, error) {
		at := parts{rest: row.Key}
		at.text()
		readers = append(readers, task.ID(at.text()))
		return true, at.err
	})
	return readers, err
}

func (t fileTable) List(prefix string, after task.LFN, limit int) ([]taskqueue.FileRecord, error) {
	span := under(key(prefix))
	if after != "" && string(after) >= prefix {
		span.From = append(key(after), 0)
	}
	if after != "" && !strings.HasPrefix(string(after), prefix) && string(after) > prefix {
		return nil, t.usable() // all that have the prefix come before
	}
	return t.scan(span, limit)
}

func (t fileTable) OnlyAnnouncedAt(site task.Site, after task.LFN, limit int) ([]taskqueue.FileRecord, error) {
	span := under(text(site))
	if after != "" {
		span.From = beyond(text(site).text(string(after)))
	}
	return t.by(announced, span, limit)
}

var classKind = kind[taskqueue.ClassID, taskqueue.Eligibility]{
	table: classes, codec: record.New[taskqueue.Eligibility](),
	id: func(e *taskqueue.Eligibility) taskqueue.ClassID { return e.ID }, key: number[taskqueue.ClassID],
}

func (t fileTable) classes() records[taskqueue.ClassID, taskqueue.Eligibility] {
	return records[taskqueue.ClassID, taskqueue.Eligibility]{t.tx, &classKind}
}

func (t fileTable) Classes() ([]taskqueue.Eligibility, error)   { return t.classes().All() }
func (t fileTable) SaveClass(class taskqueue.Eligibility) error { return t.classes().Save(class) }
func (t fileTable) DropClasses(ids ...taskqueue.ClassID) error  { return t.classes().Delete(ids...) }
func (t fileTable) AddGarbage(replicas ...task.Replica) error   { return t.garbage().Save(replicas...) }
func (t fileTable) DropGarbage(replicas ...task.Replica) error {
	return t.garbage().Delete(replicas...)
}
func (t fileTable) garbage() records[task.Replica, task.Replica] {
	return records[task.Replica, task.Replica]{t.tx, &garbageKind}
}

var garbageKind = kind[task.Replica, task.Replica]{
	table: garbage, codec: record.New[task.Replica](), counter: "garbage rows",
	id:  func(r *task.Replica) task.Replica { return *r },
	key: func(r task.Replica) key { return text(r.Site).text(r.URL) },
	indexes: []index[task.Replica]{
		{garbageByAge, func(n uint64, _ *task.Replica) []key { return []key{number(n)} }},
	},
}

func (t fileTable) Garbage(limit int, except ...task.Site) ([]task.Replica, error) {
	if limit < 1 {
		return nil, t.usable()
	}
	var found []task.Replica
	err := t.tx.scan(garbageByAge, Span{}, func(row Row) (bool, error) {
		at := parts{rest: row.Value}
		if site := task.Site(at.text()); !slices.Contains(except, site) {
			found = append(found, task.Replica{Site: site, URL: at.text()})
		}
		return len(found) < limit, at.err
	})
	return found, err
}
