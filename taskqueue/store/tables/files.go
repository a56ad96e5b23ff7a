package tables

import (
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/internal/record"
)

type fileTable struct{ *tx }

var fileKind = kind[taskqueue.FileRecord]{
	table: files, codec: record.New[taskqueue.FileRecord](),
	key: func(f *taskqueue.FileRecord) key { return key(f.LFN) },
}

func fileKeys(names []task.LFN) [][]byte {
	keys := make([][]byte, len(names))
	for i, name := range names {
		keys[i] = key(name)
	}
	return keys
}

func (t fileTable) Load(names ...task.LFN) ([]taskqueue.FileRecord, error) {
	return fileKind.load(t.tx, fileKeys(names)...)
}

func (t fileTable) Save(saved ...taskqueue.FileRecord) error {
	if err := t.writing(); err != nil || len(saved) == 0 {
		return err
	}
	keys := make([][]byte, len(saved))
	for i := range saved {
		keys[i] = fileKind.key(&saved[i])
	}
	before, err := t.get(files, keys...)
	if err != nil {
		return err
	}
	rows := make([]edit, len(saved))
	there := make(map[task.LFN]int, len(saved))
	var lists []edit
	for i := range saved {
		if at, twice := there[saved[i].LFN]; twice {
			before[i] = rows[at].after
		}
		there[saved[i].LFN] = i
		rows[i] = edit{keys[i], before[i], fileKind.encode(0, &saved[i])}
		gone, err := t.announcements(before[i])
		if err != nil {
			return err
		}
		lists = append(lists, gone...)
		if len(saved[i].Replicas) == 0 {
			for _, site := range saved[i].Announced {
				lists = append(lists, edit{announcedKey(site, saved[i].LFN), nil, keys[i]})
			}
		}
	}
	if err := t.edit(announced, lists...); err != nil {
		return err
	}
	return t.edit(files, rows...)
}

func announcedKey(site task.Site, name task.LFN) key { return text(site).text(string(name)) }

// announcements are the edits that take a file out of the lists of what only
// caches have; nil is no file.
func (t fileTable) announcements(value []byte) (gone []edit, err error) {
	if value == nil {
		return nil, nil
	}
	var old stored[taskqueue.FileRecord]
	if err := fileKind.decode(t.tx, value, &old); err != nil || len(old.record.Replicas) > 0 {
		return nil, err
	}
	for _, site := range slices.Compact(slices.Sorted(slices.Values(old.record.Announced))) {
		gone = append(gone, edit{announcedKey(site, old.record.LFN), key(old.record.LFN), nil})
	}
	return gone, nil
}

func (t fileTable) Delete(names ...task.LFN) error {
	if err := t.writing(); err != nil {
		return err
	}
	for _, name := range names {
		value, err := t.getOne(files, key(name))
		if err != nil {
			return err
		}
		gone, err := t.announcements(value)
		if err != nil {
			return err
		}
		if err := t.edit(announced, gone...); err != nil {
			return err
		}
		if err := t.edit(files, edit{key(name), value, nil}); err != nil {
			return err
		}
	}
	return nil
}

func (t fileTable) AddUses(reader task.ID, used ...task.LFN) error {
	if err := t.writing(); err != nil || len(used) == 0 {
		return err
	}
	for _, name := range used {
		t.note(uses, pending{edit{text(name).text(string(reader)), nil, []byte{}}, true})
		t.note(usesByReader, pending{edit{text(reader).text(string(name)), nil, []byte{}}, true})
	}
	return errors.Join(t.flushLarge(uses), t.flushLarge(usesByReader))
}

// dropUses forgets what the tasks of a workflow read.
func (t fileTable) dropUses(id task.WorkflowID) error {
	var gone, list []edit
	err := t.scan(usesByReader, underWorkflow(id), func(row Row) (bool, error) {
		at := parts{rest: row.Key}
		reader, name := at.text(), at.text()
		gone = append(gone, edit{text(name).text(reader), []byte{}, nil})
		list = append(list, edit{row.Key, row.Value, nil})
		return true, at.err
	})
	if err != nil {
		return err
	}
	if err := t.edit(uses, gone...); err != nil {
		return err
	}
	return t.edit(usesByReader, list...)
}

func (t fileTable) Readers(name task.LFN) (readers []task.ID, err error) {
	err = t.scan(uses, under(text(name)), func(row Row) (bool, error) {
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
	return bare(fileKind.scan(t.tx, span, limit))
}

func (t fileTable) OnlyAnnouncedAt(site task.Site, after task.LFN, limit int) ([]taskqueue.FileRecord, error) {
	span := under(text(site))
	if after != "" {
		span.From = beyond(text(site).text(string(after)))
	}
	return fileKind.by(t.tx, announced, span, limit)
}

var classKind = kind[taskqueue.Eligibility]{
	table: classes, codec: record.New[taskqueue.Eligibility](),
	key: func(e *taskqueue.Eligibility) key { return number(e.ID) },
}

func (t fileTable) Classes() ([]taskqueue.Eligibility, error) {
	return bare(classKind.scan(t.tx, Span{}, math.MaxInt))
}

func (t fileTable) SaveClass(class taskqueue.Eligibility) error { return classKind.save(t.tx, class) }

func (t fileTable) DropClasses(ids ...taskqueue.ClassID) error {
	keys := make([][]byte, len(ids))
	for i, id := range ids {
		keys[i] = number(id)
	}
	return classKind.remove(t.tx, keys...)
}

var garbageKind = kind[task.Replica]{
	table: garbage, codec: record.New[task.Replica](), counter: "garbage rows",
	key: func(r *task.Replica) key { return text(r.Site).text(r.URL) },
	indexes: []index[task.Replica]{
		{garbageByAge, func(n uint64, _ *task.Replica) key { return number(n) }},
	},
}

func (t fileTable) Garbage(limit int, except ...task.Site) ([]task.Replica, error) {
	if limit < 1 {
		return nil, t.usable()
	}
	var keys [][]byte
	err := t.scan(garbageByAge, Span{}, func(row Row) (bool, error) {
		at := parts{rest: row.Value}
		if site := task.Site(at.text()); !slices.Contains(except, site) {
			keys = append(keys, row.Value)
		}
		return len(keys) < limit, at.err
	})
	if err != nil {
		return nil, err
	}
	return garbageKind.load(t.tx, keys...)
}

func (t fileTable) AddGarbage(replicas ...task.Replica) error {
	return garbageKind.save(t.tx, replicas...)
}

func (t fileTable) DropGarbage(replicas ...task.Replica) error {
	keys := make([][]byte, len(replicas))
	for i := range replicas {
		keys[i] = garbageKind.key(&replicas[i])
	}
	return garbageKind.remove(t.tx, keys...)
}
