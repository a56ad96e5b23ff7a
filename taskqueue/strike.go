package taskqueue

import (
	"fmt"
	"slices"

	"github.com/pilotage-grid/pilotage/task"
)

// Doubt is one node's word that the last copy of a file is bad. The fault may be
// the node's own: its network, its disk.
type Doubt struct {
	URL  string
	Node string
	At   Instant // zero: nobody doubts
}

// maxBadCopies bounds how many bad copies of a file wait for a good one.
const maxBadCopies = 8

// badCopy takes a pilot's word that a storage element does not have a copy of a
// task's output, or has it with other bytes. External files stay: only a user
// knows another copy.
func (b *book) badCopy(f *FileRecord, bad *task.LostFile) error {
	at := f.ReplicaAt(bad.URL)
	if f.ProducerTask == "" || at < 0 {
		return nil
	}
	if len(f.Replicas) == 1 {
		if confirmed, err := b.confirmed(f, bad); err != nil || !confirmed {
			return err
		}
	}
	return b.strike(f, at)
}

// Strike takes a copy of a task's output out of the catalogue that a user and the
// queue itself found bad, unless it is another file's by now.
//
// Errors: none of its own.
func (r *Rules) Strike(t *Turn, file task.File, url string) (struck bool, err error) {
	err = r.apply(t, func(b *book) error {
		struck = false
		if err := b.loadFiles(file.LFN); err != nil {
			return err
		}
		f := b.files.held[file.LFN]
		if f == nil || f.ProducerTask == "" || f.Producer != file.Producer {
			return nil
		}
		at := f.ReplicaAt(url)
		if struck = at >= 0; !struck {
			return nil
		}
		return b.strike(f, at)
	})
	return struck, err
}

// confirmed tells whether a word on the last copy of a file is the second one:
// another node's, or the same node's long after, since others would have looked by
// then. Readers of the file go to other nodes first; while only that node says the
// same again they wait.
func (b *book) confirmed(f *FileRecord, bad *task.LostFile) (bool, error) {
	if err := b.loadPilots(bad.Pilot); err != nil {
		return false, err
	}
	node := ""
	if pilot := b.pilots.held[bad.Pilot]; pilot != nil {
		node = pilot.Node()
	}
	before, second := f.Doubted, f.Doubted.At.Add(b.config.Retry.SecondLook)
	switch {
	case before.URL != bad.URL:
		f.Doubted = Doubt{URL: bad.URL, Node: node, At: b.Clock}
		b.files.touch(f.LFN)
		return false, nil
	case before.Node != node || b.Clock >= second:
		return true, nil
	}
	return false, b.holdReaders(f, second)
}

// holdReaders has READY readers of a file wait.
func (b *book) holdReaders(f *FileRecord, until Instant) error {
	readers, err := b.Files().Readers(f.LFN)
	if err != nil {
		return fmt.Errorf("load the readers of %s: %w", f.LFN, err)
	}
	if err := b.loadTasks(readers...); err != nil {
		return err
	}
	for _, id := range readers {
		if s := b.tasks.held[id]; s != nil && s.State == task.Ready && s.NotBefore < until {
			s.NotBefore = until
			b.tasks.touch(id)
			b.stir(id)
		}
	}
	return nil
}

// strike takes a copy of a task's output out of the catalogue. Where it was the
// last one the caches are asked, then the maker.
func (b *book) strike(f *FileRecord, at int) error {
	b.alter(f)
	f.Bad = append(f.Bad, f.Replicas[at])
	f.Bad = f.Bad[max(0, len(f.Bad)-maxBadCopies):]
	f.Replicas = slices.Delete(slices.Clone(f.Replicas), at, at+1)
	if len(f.Replicas) > 0 {
		return nil
	}
	f.Lost, f.Struck, f.Doubted = !exists(f), true, Doubt{}
	for _, name := range f.Announced {
		site, err := b.site(name)
		if err != nil {
			return err
		}
		b.look(site)
	}
	if !f.Final {
		return nil
	}
	w, err := b.workflow(workflowOf(f.LFN))
	if err != nil {
		return err
	}
	w.Unstored++
	b.closeWorkflow(w)
	return nil
}

// trust ends the doubt about a file's last copy: it was read, or stored again.
func (b *book) trust(f *FileRecord) {
	if f.Doubted != (Doubt{}) {
		f.Doubted = Doubt{}
		b.files.touch(f.LFN)
	}
}

// clearBad has the bad copies of a file deleted that has a good one again. Those
// in another file's place, or that a later run has taken over, are not its own.
func (b *book) clearBad(f *FileRecord) error {
	if len(f.Bad) == 0 {
		return nil
	}
	bad := f.Bad
	f.Bad = nil
	b.files.touch(f.LFN)
	if f.Shared {
		return nil
	}
	bad = slices.DeleteFunc(bad, func(r task.Replica) bool {
		site, err := b.site(r.Site)
		if err != nil {
			return true // it is gone
		}
		name, ok := NameAt(site.SE, r.URL)
		return !ok || task.StoredFile(name) != f.LFN || f.ReplicaAt(r.URL) >= 0
	})
	return saveAll(bad, b.Files().AddGarbage)
}

// doubters adds to the nodes that a task avoids those that found an input bad.
func (b *book) doubters(avoid []string, spec *task.Task) []string {
	for _, in := range spec.Inputs {
		f := b.files.held[in.LFN]
		if f != nil && f.Doubted.Node != "" && len(avoid) < maxAvoid && !slices.Contains(avoid, f.Doubted.Node) {
			avoid = append(avoid, f.Doubted.Node)
		}
	}
	slices.Sort(avoid)
	return avoid
}
