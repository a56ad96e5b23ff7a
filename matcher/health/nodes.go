package health

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

const (
	// Least is how many failures in a row, at the least, set a node back.
	Least = 5
	// chance is how likely they may be by what happens elsewhere.
	chance = 1e-4
	// most bounds the failures in a row that are remembered; where chance asks
	// for more, nothing stands out.
	most = 64
	// window is how many of a node's newest attempts are its share: few, so that
	// another workflow is soon judged by itself.
	window = 8
	// whole is a share of 1 in units: every count up to the window divides it.
	whole = 840
	// FirstPause is how long a node gets nothing; each further time twice as long,
	// up to LastPause.
	FirstPause = 30 * time.Second
	// LastPause is the longest.
	LastPause = 10 * time.Minute
	// Memory is how long a node is remembered of which nothing is heard.
	Memory = time.Hour
)

// Node is what is known of a node.
type Node struct {
	Name   string
	Failed []string // what has failed here since the last success, each once, oldest first
	Ends   []string // the newest attempts: what failed, "" is a success
	Before int      // further ones before, by the word of another judge
	Pauses int      // in a row; 0: it is not set back
	Until  time.Time
	Why    string // the last error
	Last   time.Time
}

// State of a node.
type State uint8

// States of a node.
const (
	Fit   State = iota
	Held        // gets nothing until its pause is over
	Trial       // gets one task at a time
)

// Nodes are the nodes of a site. The zero value knows none.
type Nodes struct {
	known map[string]*Node
	sum   int // of the shares of all
	swept time.Time
}

// Given notes that a node is given work.
func (s *Nodes) Given(now time.Time, name string) { s.node(now, name) }

// Succeeded notes that a payload ended well.
func (s *Nodes) Succeeded(now time.Time, name string) {
	s.change(s.node(now, name), func(n *Node) {
		n.Failed, n.Before, n.Pauses, n.Until, n.Why = nil, 0, 0, time.Time{}, ""
		n.end("")
	})
}

// Failed notes that something has failed at a node: a task, or a pilot with all
// that it ran. Elsewhere are the nodes at which it has failed before.
func (s *Nodes) Failed(now time.Time, name, what, why string, elsewhere []string) {
	n := s.node(now, name)
	if slices.ContainsFunc(elsewhere, func(other string) bool { return other != name }) {
		for _, other := range append(slices.Clone(elsewhere), name) {
			if o := s.known[other]; o != nil {
				s.change(o, func(o *Node) { o.acquit(what) })
			}
		}
		return
	}
	s.change(n, func(n *Node) {
		n.end(what)
		if !slices.Contains(n.Failed, what) {
			n.Failed = append(n.Failed, what)
			n.Failed = n.Failed[max(0, len(n.Failed)-most):]
		}
		n.Why = why
	})
	if s.standsOut(n) && !now.Before(n.Until) {
		n.Until = now.Add(min(FirstPause<<min(n.Pauses, 20), LastPause))
		n.Pauses++
	}
}

// State tells what a node may be given now.
func (s *Nodes) State(now time.Time, name string) State {
	n := s.known[name]
	switch {
	case n == nil || n.Pauses == 0 || len(s.known) < 2 && n.Before == 0:
		return Fit
	case !s.standsOut(n):
		n.Pauses, n.Until = 0, time.Time{}
		return Fit
	case now.Before(n.Until):
		return Held
	}
	return Trial
}

// Get returns what is known of a node; nil if nothing is.
func (s *Nodes) Get(name string) *Node { return s.known[name] }

// Row is how many different things have failed at a node since the last success.
func (n *Node) Row() int { return min(most, n.Before+len(n.Failed)) }

// Restore takes over what another judge thought of nodes that are set back.
func (s *Nodes) Restore(now time.Time, marks []task.NodeMark) {
	for _, m := range marks {
		n := s.node(now, m.Name)
		n.Before, n.Pauses, n.Until, n.Why = m.Failed, m.Pauses, now.Add(m.Left), m.Why
	}
}

// Marks tells of the nodes that are set back, by name.
func (s *Nodes) Marks(now time.Time) (marks []task.NodeMark) {
	for _, name := range s.SetBack() {
		marks = append(marks, s.known[name].Mark(now))
	}
	return marks
}

// Mark tells of a node that is set back.
func (n *Node) Mark(now time.Time) task.NodeMark {
	return task.NodeMark{Name: n.Name, Failed: n.Row(), Pauses: n.Pauses, Left: max(0, n.Until.Sub(now)), Why: task.Brief(n.Why)}
}

// Words tell people what is thought of a node that is set back.
func Words(m task.NodeMark) string {
	next := "it is on trial"
	if m.Left > 0 {
		next = fmt.Sprintf("a trial follows in %s", m.Left.Round(time.Second))
	}
	return fmt.Sprintf("its node %s is set back, as %d different tasks in a row have failed there that do not elsewhere; %s; the last: %s",
		m.Name, m.Failed, next, m.Why)
}

// SetBack lists the nodes that are set back, by name.
func (s *Nodes) SetBack() (names []string) {
	for name, n := range s.known {
		if n.Pauses > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// standsOut tells whether a node has failed more in a row than is a chance, were
// it like the others.
func (s *Nodes) standsOut(n *Node) bool {
	others := len(s.known) - 1
	if n.Row() < Least || others < 1 {
		return n.Before >= Least // another judge has compared
	}
	share := float64(s.sum-n.share()) / float64(others*whole)
	return math.Pow(share, float64(n.Row())) < chance
}

// share is how much of a node's newest attempts failed.
func (n *Node) share() int {
	if len(n.Ends) == 0 {
		return 0
	}
	failed := 0
	for _, what := range n.Ends {
		if what != "" {
			failed++
		}
	}
	return failed * whole / len(n.Ends)
}

func (n *Node) end(what string) {
	n.Ends = append(n.Ends, what)
	n.Ends = n.Ends[max(0, len(n.Ends)-window):]
}

// acquit takes back that something has failed here: it fails elsewhere as well.
func (n *Node) acquit(what string) {
	is := func(other string) bool { return other == what }
	n.Failed, n.Ends = slices.DeleteFunc(n.Failed, is), slices.DeleteFunc(n.Ends, is)
}

// change keeps the sum of the shares.
func (s *Nodes) change(n *Node, by func(*Node)) {
	s.sum -= n.share()
	by(n)
	s.sum += n.share()
}

// node returns a node, made when missing. Those of which nothing was heard for
// long are forgotten.
func (s *Nodes) node(now time.Time, name string) *Node {
	if s.known == nil {
		s.known = make(map[string]*Node)
	}
	if now.Sub(s.swept) >= Memory/8 {
		s.swept = now
		for other, n := range s.known {
			if now.Sub(n.Last) >= Memory && !now.Before(n.Until) {
				s.sum -= n.share()
				delete(s.known, other)
			}
		}
	}
	n := s.known[name]
	if n == nil {
		n = &Node{Name: name}
		s.known[name] = n
	}
	n.Last = now
	return n
}
