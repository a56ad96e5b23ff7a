package taskqueue

import (
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
func (c *catalogue) badCopy(f *FileRecord, bad *task.LostFile) {
	at := f.ReplicaAt(bad.URL)
	if f.ProducerTask == "" || at < 0 {
		return
	}
	if len(f.Replicas) > 1 || c.confirmed(f, bad) {
		c.strike(f, at)
	}
}

// Strike takes a copy of a task's output out of the catalogue that a user and the
// queue itself found bad, unless it is another file's by now.
//
// Errors: none of its own.
func (r *Rules) Strike(t *Turn, file task.File, url string) (_ bool, err error) {
	q := r.open(t)
	defer q.close(&err)
	f := q.files.one(file.LFN)
	if f == nil || f.ProducerTask == "" || f.Producer != file.Producer {
		return false, nil
	}
	at := f.ReplicaAt(url)
	if at < 0 {
		return false, nil
	}
	q.catalogue.strike(f, at)
	return true, nil
}

// confirmed tells whether a word on the last copy of a file is the second one:
// another node's, or the same node's long after, since others would have looked by
// then. Readers of the file go to other nodes first; while only that node says the
// same again they wait.
func (c *catalogue) confirmed(f *FileRecord, bad *task.LostFile) bool {
	node := ""
	if pilot := c.pilots.one(bad.Pilot); pilot != nil {
		node = pilot.Node()
	}
	before, second := f.Doubted, f.Doubted.At.Add(c.config.Retry.SecondLook)
	switch {
	case before.URL != bad.URL:
		f.Doubted = Doubt{URL: bad.URL, Node: node, At: c.Clock}
		c.files.touch(f.LFN)
		return false
	case before.Node != node || c.Clock >= second:
		return true
	}
	c.holdReaders(f, second, func(s *TaskState) bool { return s.State == task.Ready })
	return false
}

// holdReaders has some of a file's readers wait before they are handed out.
func (c *catalogue) holdReaders(f *FileRecord, until Instant, which func(*TaskState) bool) {
	readers := read(c.Files().Readers(f.LFN))
	c.tasks.load(readers...)
	for _, id := range readers {
		if s := c.tasks.held[id]; s != nil && which(s) && s.NotBefore < until {
			s.NotBefore = until
			c.tasks.touch(id)
			c.Effects.stir(id)
		}
	}
}

// strike takes a copy of a task's output out of the catalogue. Where it was the
// last one the caches are asked, then the maker. Readers wait after each bad copy, up
// to twice as long: storage that does not keep what it takes would else be filled and
// read without a pause.
func (c *catalogue) strike(f *FileRecord, at int) {
	c.alter(f)
	f.Strikes++
	c.holdReaders(f, c.Clock.Add(c.config.Retry.backoff(c.Random, f.Strikes)), func(s *TaskState) bool { return !s.State.Terminal() })
	f.Bad = append(f.Bad, f.Replicas[at])
	f.Bad = f.Bad[max(0, len(f.Bad)-maxBadCopies):]
	f.Replicas = slices.Delete(slices.Clone(f.Replicas), at, at+1)
	if len(f.Replicas) > 0 {
		return
	}
	c.askCaches(f)
}

// askCaches asks the caches for a task's output that has no copy on a storage
// element any more, to be stored again. If none has it, it is lost.
func (c *catalogue) askCaches(f *FileRecord) {
	f.Struck, f.Doubted = true, Doubt{}
	for _, name := range f.Announced {
		site := c.sites.need(name)
		c.sites.look(site)
	}
}

// trust ends the doubt about a file's last copy: it was read, or stored again.
func (c *catalogue) trust(f *FileRecord) {
	if f.Doubted != (Doubt{}) {
		f.Doubted = Doubt{}
		c.files.touch(f.LFN)
	}
}

// doubters adds to the nodes that a task avoids those that found an input bad.
func (c *catalogue) doubters(avoid []string, spec *task.Task) []string {
	for _, in := range spec.Inputs {
		f := c.files.held[in.LFN]
		if f != nil && f.Doubted.Node != "" && len(avoid) < maxAvoid && !slices.Contains(avoid, f.Doubted.Node) {
			avoid = append(avoid, f.Doubted.Node)
		}
	}
	slices.Sort(avoid)
	return avoid
}
