package matcher

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// lifetimeStep is how finely a pilot's remaining lifetime is looked at: every
// step has its classes judged again.
const lifetimeStep = time.Minute

// caller is a pilot with what its cache is known to hold.
type caller struct {
	pilot    Pilot
	known    bool // it has been described
	judged   map[uint32]*judgement
	holds    map[task.FilePrint]struct{}
	relevant map[task.FilePrint]struct{} // of holds, those that a waiting task reads
}

func (s *Pool) caller(id task.PilotID) *caller {
	c := s.callers[id]
	if c == nil {
		c = &caller{
			judged: make(map[uint32]*judgement),
			holds:  make(map[task.FilePrint]struct{}), relevant: make(map[task.FilePrint]struct{}),
		}
		s.callers[id] = c
	}
	return c
}

// Describe says what a pilot is; another description has every class judged
// again, and other payloads there those classes that look at them.
func (s *Pool) Describe(pilot Pilot) {
	c := s.caller(pilot.ID)
	if c.known && samePilot(&c.pilot, &pilot) {
		if c.pilot.Live != pilot.Live {
			c.pilot.Live = pilot.Live
			maps.DeleteFunc(c.judged, func(_ uint32, j *judgement) bool { return j.live() })
		}
		return
	}
	c.pilot, c.known = pilot, true
	clear(c.judged)
}

// samePilot tells whether two descriptions give the same answers.
func samePilot(a, b *Pilot) bool {
	x, y := *a, *b
	x.Features, y.Features = nil, nil
	x.Lifetime, y.Lifetime = x.Lifetime.Truncate(lifetimeStep), y.Lifetime.Truncate(lifetimeStep)
	return x.Host == y.Host && x.Site == y.Site && x.Resources == y.Resources && x.Slots == y.Slots && x.Arch == y.Arch &&
		x.OS == y.OS && x.Load == y.Load && x.CoreSpeed == y.CoreSpeed && x.Lifetime == y.Lifetime && slices.Equal(a.Features, b.Features) &&
		x.Walls.Confinement == y.Walls.Confinement && slices.Equal(x.Walls.Up, y.Walls.Up)
}

// Learn notes files that came into a pilot's cache, at most so many as there
// is room for, and tells whether these were all.
func (s *Pool) Learn(pilot task.PilotID, files []task.FilePrint, room int) bool {
	c := s.caller(pilot)
	for _, print := range files {
		if _, known := c.holds[print]; known {
			continue
		}
		if room--; room < 0 {
			return false
		}
		c.holds[print] = struct{}{}
		s.prints++
		s.holders[print] = append(s.holders[print], c)
		if len(s.readers[print]) > 0 {
			c.relevant[print] = struct{}{}
		}
	}
	return true
}

// Unlearn notes files that left a pilot's cache.
func (s *Pool) Unlearn(pilot task.PilotID, files []task.FilePrint) {
	c := s.caller(pilot)
	for _, print := range files {
		if _, known := c.holds[print]; known {
			delete(c.holds, print)
			delete(c.relevant, print)
			s.unhold(c, print)
		}
	}
}

func (s *Pool) unhold(c *caller, print task.FilePrint) {
	s.prints--
	rest := slices.DeleteFunc(s.holders[print], func(other *caller) bool { return other == c })
	if s.holders[print] = rest; len(rest) == 0 {
		delete(s.holders, print)
	}
}

// Prints is the number of files of all caches, each as often as it is held.
func (s *Pool) Prints() int { return s.prints }

// Holds is the number of files that a pilot's cache is known to hold.
func (s *Pool) Holds(pilot task.PilotID) int {
	if c := s.callers[pilot]; c != nil {
		return len(c.holds)
	}
	return 0
}

// ForgetCache empties what is known of a pilot's cache.
func (s *Pool) ForgetCache(pilot task.PilotID) {
	c := s.caller(pilot)
	for print := range c.holds {
		s.unhold(c, print)
	}
	clear(c.holds)
	clear(c.relevant)
}

// Forget drops a pilot that is gone.
func (s *Pool) Forget(pilot task.PilotID) {
	if s.callers[pilot] == nil {
		return
	}
	s.ForgetCache(pilot)
	delete(s.callers, pilot)
	s.matrix.RemovePilot(pilot)
}

// Holders lists the pilots whose cache has a file, by id.
func (s *Pool) Holders(file task.FileKey) []task.PilotID {
	var ids []task.PilotID
	for _, c := range s.holders[file.Print()] {
		ids = append(ids, c.pilot.ID)
	}
	slices.Sort(ids)
	return ids
}

// HoldersOf lists pilots whose cache has an input of a task, those of the
// file with the fewest holders first; at most a few of each file.
func (s *Pool) HoldersOf(id task.ID) []task.PilotID {
	t := s.tasks[id]
	if t == nil {
		return nil
	}
	prints := slices.Clone(t.prints)
	slices.SortStableFunc(prints, func(a, b task.FilePrint) int { return cmp.Compare(len(s.holders[a]), len(s.holders[b])) })
	var ids []task.PilotID
	for _, print := range prints {
		for _, c := range s.holders[print][:min(len(s.holders[print]), fewHolders)] {
			ids = append(ids, c.pilot.ID)
		}
	}
	return ids
}

const fewHolders = 8

func (c *caller) local(key task.FileKey) bool {
	_, has := c.holds[key.Print()]
	return has
}
