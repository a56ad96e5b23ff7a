package pilot

import (
	"fmt"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// search is the question whether a file that a pilot could not read is lost.
type search struct {
	file  task.File
	tasks []task.ID
	round uint64    // of the TaskList that asks; 0 until it is sent
	again time.Time // when the tasks may be assigned again; zero: asking
}

// searches is how often a file may be missed, although somebody says to have
// it, before its task goes back to the queue.
const searches = 5

// missing begins to look for inputs that nobody gave to a pilot.
func (m *Master) missing(h *held, back Handback) {
	m.takeFrom(h)
	h.phase = waiting
	if h.no != 0 {
		m.matrix.SetReady(h.no, false)
	}
	if h.searched++; h.searched > searches {
		m.giveBack(h, back.Reason)
		return
	}
	for _, file := range back.Missing {
		s := m.lost[file.LFN]
		if s == nil {
			s = &search{file: file}
			m.lost[file.LFN] = s
			m.list.ask = append(m.list.ask, file.Key())
		}
		s.tasks = append(s.tasks, h.Task.ID)
	}
	m.list.hurry(m.now)
}

// searched draws the consequences of a round that asked for files.
func (m *Master) searched(round uint64, have map[task.FileKey]bool) {
	for _, name := range sortedKeys(m.lost) {
		s := m.lost[name]
		if !s.again.IsZero() || s.round != round {
			continue
		}
		if have[s.file.Key()] {
			s.again = m.now.Add(m.config.LostWait)
			continue
		}
		delete(m.lost, name)
		m.fileLost(s)
	}
}

// fileLost tells the queue that nobody holds a file any more; the queue has
// it made again (DESIGN section 3, generations).
func (m *Master) fileLost(s *search) {
	if file := m.files[s.file.LFN]; file != nil && len(file.Replicas) > 0 {
		m.retrySearch(s) // it has reached a storage element meanwhile
		return
	}
	reason := fmt.Sprintf("no pilot holds %s and no storage element has it", s.file.LFN.Local())
	m.outbox.lost = append(m.outbox.lost, task.LostFile{LFN: s.file.LFN, Digest: s.file.Digest, Reason: reason})
	m.fileMissing(s.file.LFN)
	for _, id := range sortedKeys(m.held) {
		if h := m.held[id]; h.phase == waiting && h.missing[s.file.LFN] {
			m.giveBack(h, reason)
		}
	}
	for _, id := range s.tasks {
		if h := m.held[id]; h != nil && h.phase == waiting {
			m.giveBack(h, reason)
		}
	}
	m.syncSoon(0)
}

func (m *Master) retrySearch(s *search) {
	for _, id := range s.tasks {
		if h := m.held[id]; h != nil && h.phase == waiting && len(h.missing) == 0 {
			m.makeReady(h)
		}
	}
}

// passSearches marks the round that asks, and lets tasks go on whose file has
// been found.
func (m *Master) passSearches() {
	for _, name := range sortedKeys(m.lost) {
		s := m.lost[name]
		switch {
		case s.round == 0:
			s.round = m.list.rounds + 1
		case !s.again.IsZero() && !m.now.Before(s.again):
			delete(m.lost, name)
			m.retrySearch(s)
		}
	}
}
