package mem

import (
	"slices"
	"strings"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// use says that a task reads a file.
type use struct {
	file   task.LFN
	reader task.ID
}

// announcement says that pilots of a site hold a file that has no replica.
type announcement struct {
	site task.Site
	file task.LFN
}

// discarded is a replica to be deleted.
type discarded struct {
	task.Replica
	order uint64
}

type files struct {
	rows      table[task.LFN, *taskqueue.FileRecord]
	announced index[announcement]
	byFile    index[use]
	byReader  index[use]
	classes   table[taskqueue.ClassID, *taskqueue.Eligibility]
	garbage   index[discarded] // by replica
	oldest    index[discarded] // by time of adding
}

func newFiles() files {
	return files{
		rows: newTable[task.LFN, *taskqueue.FileRecord](),
		announced: newIndex(func(a, b *announcement) bool {
			if a.site != b.site {
				return a.site < b.site
			}
			return a.file < b.file
		}, nil),
		byFile: newIndex(func(a, b *use) bool {
			if a.file != b.file {
				return a.file < b.file
			}
			return a.reader < b.reader
		}, nil),
		byReader: newIndex(func(a, b *use) bool {
			if a.reader != b.reader {
				return a.reader < b.reader
			}
			return a.file < b.file
		}, nil),
		classes: newTable[taskqueue.ClassID, *taskqueue.Eligibility](),
		garbage: newIndex(func(a, b *discarded) bool {
			if a.URL != b.URL {
				return a.URL < b.URL
			}
			return a.Site < b.Site
		}, nil),
		oldest: newIndex(func(a, b *discarded) bool { return a.order < b.order }, nil),
	}
}

func (f files) copy() files {
	return files{
		f.rows.copy(), f.announced.copy(), f.byFile.copy(), f.byReader.copy(),
		f.classes.copy(), f.garbage.copy(), f.oldest.copy(),
	}
}

// replace keeps the announcements in step with a file's record.
func (f files) replace(before, after *taskqueue.FileRecord) {
	if before != nil && len(before.Replicas) == 0 {
		for _, site := range before.Announced {
			f.announced.tree.Delete(&announcement{site, before.LFN})
		}
	}
	if after != nil && len(after.Replicas) == 0 {
		for _, site := range after.Announced {
			f.announced.tree.Set(&announcement{site, after.LFN})
		}
	}
}

func (f files) removeUses(id task.WorkflowID) {
	var gone []*use
	f.byReader.from(&use{reader: task.NewID(id, "")}, func(u *use) bool {
		if u.reader.Workflow() != id {
			return false
		}
		gone = append(gone, u)
		return true
	})
	for _, u := range gone {
		f.byFile.tree.Delete(u)
		f.byReader.tree.Delete(u)
	}
}

type fileTable struct{ *tx }

func (t fileTable) Load(names ...task.LFN) ([]taskqueue.FileRecord, error) {
	return lookUp(names, t.files.rows.get, fileCopy), nil
}

func (t fileTable) Save(saved ...taskqueue.FileRecord) error {
	if err := t.writing(); err != nil {
		return err
	}
	for i := range saved {
		row := fileCopy.saved(&saved[i])
		t.files.replace(t.files.rows.set(row.LFN, row), row)
	}
	return nil
}

func (t fileTable) Delete(names ...task.LFN) error {
	if err := t.writing(); err != nil {
		return err
	}
	for _, name := range names {
		t.files.replace(t.files.rows.remove(name), nil)
	}
	return nil
}

func (t fileTable) AddUses(reader task.ID, names ...task.LFN) error {
	if err := t.writing(); err != nil {
		return err
	}
	for _, name := range names {
		u := &use{name, reader}
		t.files.byFile.tree.Set(u)
		t.files.byReader.tree.Set(u)
	}
	return nil
}

func (t fileTable) Readers(name task.LFN) ([]task.ID, error) {
	var readers []task.ID
	t.files.byFile.from(&use{file: name}, func(u *use) bool {
		if u.file != name {
			return false
		}
		readers = append(readers, u.reader)
		return true
	})
	return readers, nil
}

func (t fileTable) List(prefix string, after task.LFN, limit int) ([]taskqueue.FileRecord, error) {
	var found []*taskqueue.FileRecord
	t.files.rows.from(max(task.LFN(prefix), after), func(name task.LFN, row *taskqueue.FileRecord) bool {
		if after != "" && name == after {
			return true
		}
		if len(found) >= limit || !strings.HasPrefix(string(name), prefix) {
			return false
		}
		found = append(found, row)
		return true
	})
	return fileCopy.list(found), nil
}

func (t fileTable) OnlyAnnouncedAt(site task.Site, after task.LFN, limit int) ([]taskqueue.FileRecord, error) {
	var found []*taskqueue.FileRecord
	t.files.announced.from(&announcement{site, after}, func(a *announcement) bool {
		if after != "" && *a == (announcement{site, after}) {
			return true
		}
		if len(found) >= limit || a.site != site {
			return false
		}
		row, _ := t.files.rows.get(a.file)
		found = append(found, row)
		return true
	})
	return fileCopy.list(found), nil
}

func (t fileTable) Classes() ([]taskqueue.Eligibility, error) {
	var found []*taskqueue.Eligibility
	t.files.classes.each(func(_ taskqueue.ClassID, class *taskqueue.Eligibility) bool {
		found = append(found, class)
		return true
	})
	return classCopy.list(found), nil
}

func (t fileTable) SaveClass(class taskqueue.Eligibility) error {
	if err := t.writing(); err != nil {
		return err
	}
	t.files.classes.set(class.ID, classCopy.saved(&class))
	return nil
}

func (t fileTable) DropClasses(ids ...taskqueue.ClassID) error {
	if err := t.writing(); err != nil {
		return err
	}
	for _, id := range ids {
		t.files.classes.remove(id)
	}
	return nil
}

func (t fileTable) Garbage(limit int, except ...task.Site) ([]task.Replica, error) {
	var found []task.Replica
	t.files.oldest.from(&discarded{}, func(d *discarded) bool {
		if len(found) >= limit {
			return false
		}
		if !slices.Contains(except, d.Site) {
			found = append(found, d.Replica)
		}
		return true
	})
	return found, nil
}

func (t fileTable) AddGarbage(replicas ...task.Replica) error {
	if err := t.writing(); err != nil {
		return err
	}
	for _, replica := range replicas {
		row := &discarded{Replica: replica}
		if _, known := t.files.garbage.tree.Get(row); known {
			continue
		}
		row.order = t.next()
		t.files.garbage.tree.Set(row)
		t.files.oldest.tree.Set(row)
	}
	return nil
}

func (t fileTable) DropGarbage(replicas ...task.Replica) error {
	if err := t.writing(); err != nil {
		return err
	}
	for _, replica := range replicas {
		if row, known := t.files.garbage.tree.Delete(&discarded{Replica: replica}); known {
			t.files.oldest.tree.Delete(row)
		}
	}
	return nil
}
