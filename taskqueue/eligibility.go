package taskqueue

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pilotage-grid/pilotage/task"
)

// siteSet is a set of sites, a bit for each in the order of their names.
type siteSet []uint64

func newSiteSet(sites int) siteSet { return make(siteSet, (sites+63)/64) }

func (s siteSet) add(i int)      { s[i/64] |= 1 << (i % 64) }
func (s siteSet) has(i int) bool { return s[i/64]&(1<<(i%64)) != 0 }

func (s siteSet) narrow(other siteSet) {
	for i := range s {
		s[i] &= other[i]
	}
}

// exists tells whether anybody has the file.
func exists(f *FileRecord) bool {
	return f != nil && (len(f.Announced) > 0 || len(f.Replicas) > 0)
}

// Reads tells whether a site can read a file: from its pilots' caches, from
// its own storage element, or from a remote one within its reach.
func (s *SiteRecord) Reads(f *FileRecord) bool {
	if f == nil {
		return false
	}
	if slices.Contains(f.Announced, s.Name) {
		return true
	}
	return slices.ContainsFunc(f.Replicas, func(r task.Replica) bool { return s.Reaches(r.Site) })
}

// Reaches tells whether a site may read another's storage element.
func (s *SiteRecord) Reaches(owner task.Site) bool {
	return owner == s.Name || s.RemoteRead && (s.Reach == nil || slices.Contains(s.Reach, owner))
}

// readersOf returns the sites that can read a file; sites.loadAll comes first.
func (c *catalogue) readersOf(f *FileRecord) siteSet {
	if set, known := c.readable[f.LFN]; known {
		return set
	}
	set := newSiteSet(len(c.sites.names))
	for i, name := range c.sites.names {
		if c.sites.held[name].Reads(f) {
			set.add(i)
		}
	}
	if c.readable == nil {
		c.readable = make(map[task.LFN]siteSet)
	}
	c.readable[f.LFN] = set
	return set
}

// of returns which sites can read all inputs of a task and which one
// has most of their bytes. No site at all is ok == false. Sites, description
// and files are loaded before.
func (c *classes) of(spec *task.Task) (class Eligibility, ok bool) {
	class.Work = spec.Class()
	names := inputs(spec)
	if len(names) == 0 {
		return class, true
	}
	set := newSiteSet(len(c.sites.names))
	for i := range c.sites.names {
		set.add(i)
	}
	weight := make(map[task.Site]task.Bytes)
	for _, name := range names {
		f := c.files.held[name]
		if !exists(f) {
			return class, false
		}
		set.narrow(c.catalogue.readersOf(f))
		c.weigh(weight, f)
	}
	all := true
	for i, name := range c.sites.names {
		if set.has(i) {
			class.Sites = append(class.Sites, name)
		} else {
			all = false
		}
	}
	if len(class.Sites) == 0 {
		return class, false
	}
	class.Prefer = heaviest(class.Sites, weight)
	if all {
		class.Sites = nil
	}
	return class, true
}

// weigh adds a file's bytes to the sites that hold it. A file of unknown size
// counts as one byte.
func (c *classes) weigh(weight map[task.Site]task.Bytes, f *FileRecord) {
	size := max(f.Size, 1)
	for _, site := range f.Announced {
		weight[site] += size
	}
	for i, replica := range f.Replicas {
		if slices.Contains(f.Announced, replica.Site) ||
			slices.ContainsFunc(f.Replicas[:i], func(r task.Replica) bool { return r.Site == replica.Site }) {
			continue
		}
		weight[replica.Site] += size
	}
}

// heaviest returns the one site with most bytes, "" if there is no such one.
func heaviest(sites []task.Site, weight map[task.Site]task.Bytes) task.Site {
	var best task.Site
	most, tied := task.Bytes(0), false
	for _, site := range sites {
		switch bytes := weight[site]; {
		case bytes > most:
			best, most, tied = site, bytes, false
		case bytes == most:
			tied = true
		}
	}
	if tied {
		return ""
	}
	return best
}

// Key is the text that identifies the class among the interned:
// "siteA,siteB|siteA|requirement, rank and resources".
func (e Eligibility) Key() string {
	var key strings.Builder
	if e.Sites == nil {
		key.WriteString("*")
	}
	for i, site := range e.Sites {
		if i > 0 {
			key.WriteByte(',')
		}
		key.WriteString(string(site))
	}
	fmt.Fprintf(&key, "|%s|", e.Prefer)
	for _, resource := range task.AllResources {
		fmt.Fprintf(&key, "%d ", resource.Get(e.Work.Resources))
	}
	fmt.Fprintf(&key, "%q %q", e.Work.Require, e.Work.Rank)
	if e.Final {
		key.WriteString("|final")
	}
	return key.String()
}

// anywhere tells whether every site may run the class and none comes first.
func (e *Eligibility) anywhere() bool { return e.Sites == nil && e.Prefer == "" && !e.Final }

// Allows tells whether a site is in the class.
func (e *Eligibility) Allows(site task.Site) bool {
	if e.Sites == nil {
		return true
	}
	_, found := slices.BinarySearch(e.Sites, site)
	return found
}

// classes knows which sites can run a task, and numbers the classes of tasks with
// equal ones.
type classes struct {
	*records
	catalogue *catalogue
	known     *classBook // once loaded
}

// classBook knows the interned classes.
type classBook struct {
	byKey    map[string]ClassID
	byID     map[ClassID]*Eligibility
	anywhere map[task.Class]ClassID // those of every site, which prefer none
}

func (c *classBook) put(class *Eligibility) {
	c.byKey[class.Key()] = class.ID
	c.byID[class.ID] = class
	if class.anywhere() {
		c.anywhere[class.Work] = class.ID
	}
}

// load reads the interned classes.
func (c *classes) load() {
	if c.known != nil {
		return
	}
	all := read(c.Files().Classes())
	c.known = &classBook{
		make(map[string]ClassID, len(all)), make(map[ClassID]*Eligibility, len(all)), make(map[task.Class]ClassID),
	}
	for i := range all {
		c.known.put(&all[i])
	}
}

// classOf returns the class of a bare task that waited to be sealed. It is
// interned anew if it was forgotten meanwhile.
func (c *classes) classOf(s *TaskState) ClassID {
	if c.load(); c.known.byID[s.Class] != nil {
		return s.Class
	}
	c.specs.load(s.ID)
	return c.intern(Eligibility{Work: c.specs.held[s.ID].Class()})
}

// intern returns the number of a class.
func (c *classes) intern(class Eligibility) ClassID {
	c.load()
	if class.anywhere() {
		if id, known := c.known.anywhere[class.Work]; known {
			return id
		}
	} else if id, known := c.known.byKey[class.Key()]; known {
		return id
	}
	next := read(c.Meta().Next("class", 1))
	class.ID = ClassID(next)
	check(c.Files().SaveClass(class))
	c.known.put(&class)
	return class.ID
}
