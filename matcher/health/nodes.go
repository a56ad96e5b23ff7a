package health

import (
	"fmt"
	"maps"
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
	known    map[string]*Node
	sum      int // of the shares of all
	swept    time.Time
	setBack  map[string]State // those that are, as Look has found them last
	restored bool
}

// End is how a payload ended at a node, or that a pilot died there with what it ran.
type End struct {
	Node      string
	What      string // the task, or the pilot
	OK        bool
	Why       string   // the error
	Elsewhere []string // nodes at which the task has failed before
}

// Ended is the end of an attempt, and whether it counts: what a user kills says nothing.
// Storage that does not answer does it to all nodes, or else the node is at fault.
func Ended(node string, o *task.Outcome) (end End, counts bool) {
	counts = o.OK || o.Failure != task.KilledByUser
	return End{Node: node, What: string(o.Attempt.Task), OK: o.OK, Why: o.Reason}, counts
}

// Unread is the end of a task that was handed back because its inputs could not be read.
func Unread(node string, id task.ID, reason string) End {
	return End{Node: node, What: string(id), Why: reason}
}

// Died is the death of a pilot, which counts once whatever it was running.
func Died(node string, pilot task.PilotID, reason string) End {
	return End{Node: node, What: string(pilot), Why: "a pilot died with what it ran: " + reason}
}

// Given notes that a node is given work.
func (s *Nodes) Given(now time.Time, name string) { s.node(now, name) }

// Note takes what speaks for or against a node.
func (s *Nodes) Note(now time.Time, end End) {
	n := s.node(now, end.Node)
	if end.OK {
		s.change(n, func(n *Node) {
			n.Failed, n.Before, n.Pauses, n.Until, n.Why = nil, 0, 0, time.Time{}, ""
			n.end("")
		})
		return
	}
	if slices.ContainsFunc(end.Elsewhere, func(other string) bool { return other != n.Name }) {
		for _, other := range append(slices.Clone(end.Elsewhere), n.Name) {
			if o := s.known[other]; o != nil {
				s.change(o, func(o *Node) { o.acquit(end.What) })
			}
		}
		return
	}
	s.change(n, func(n *Node) {
		n.end(end.What)
		if !slices.Contains(n.Failed, end.What) {
			n.Failed = append(n.Failed, end.What)
			n.Failed = n.Failed[max(0, len(n.Failed)-most):]
		}
		n.Why = end.Why
	})
	if s.standsOut(n) && !now.Before(n.Until) {
		n.Until = now.Add(min(FirstPause<<min(n.Pauses, 20), LastPause))
		n.Pauses++
		s.watch(n)
	}
}

// watch has Look follow the state of a node that is set back.
func (s *Nodes) watch(n *Node) {
	if s.setBack == nil {
		s.setBack = make(map[string]State)
	}
	if _, watched := s.setBack[n.Name]; !watched {
		s.setBack[n.Name] = Fit // until then
	}
}

// Look judges the nodes that are set back anew, as time has passed or something was
// noted. It returns those whose state is another one than before, by name. Nodes of
// which nothing was heard for long are forgotten.
func (s *Nodes) Look(now time.Time) (turned []string) {
	if now.Sub(s.swept) >= Memory/8 {
		s.swept = now
		for name, n := range s.known {
			if now.Sub(n.Last) >= Memory && !now.Before(n.Until) {
				s.sum -= n.share()
				delete(s.known, name)
			}
		}
	}
	for name, before := range s.setBack {
		state := s.judge(now, name)
		if state != before {
			turned = append(turned, name)
		}
		if s.setBack[name] = state; s.known[name] == nil || s.known[name].Pauses == 0 {
			delete(s.setBack, name)
		}
	}
	slices.Sort(turned)
	return turned
}

// State is what a node may be given, as Look has found last.
func (s *Nodes) State(name string) State { return s.setBack[name] }

// Due is when the first pause is over; zero: there is none.
func (s *Nodes) Due() (due time.Time) {
	for name, state := range s.setBack {
		if until := s.known[name].Until; state == Held && (due.IsZero() || until.Before(due)) {
			due = until
		}
	}
	return due
}

// Allows bounds by the state of its node how many tasks a pilot may get at once and
// early: none while the node is set back, then one on trial, and none beside that.
func (s State) Allows(free, early int, onTrial func() bool) (int, int) {
	switch {
	case s == Fit:
		return free, early
	case s == Held || onTrial():
		return 0, 0
	}
	return min(1, free), 0
}

// Proven tells whether one of a node's newest attempts has ended well.
func (s *Nodes) Proven(name string) bool {
	n := s.known[name]
	return n != nil && slices.Contains(n.Ends, "")
}

// judge decides what a node may be given now.
func (s *Nodes) judge(now time.Time, name string) State {
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

// TrialSince is when the pause of a node on trial was over.
func (s *Nodes) TrialSince(name string) time.Time { return s.known[name].Until }

// Row is how many different things have failed at a node since the last success.
func (n *Node) Row() int { return min(most, n.Before+len(n.Failed)) }

// Restore takes over, once, what another judge thought of nodes that are set back.
func (s *Nodes) Restore(now time.Time, marks []task.NodeMark) {
	if s.restored {
		return
	}
	s.restored = true
	for _, m := range marks {
		n := s.node(now, m.Name)
		n.Before, n.Pauses, n.Until, n.Why = m.Failed, m.Pauses, now.Add(m.Left), m.Why
		s.watch(n)
	}
}

// Restored tells whether it has taken over what was thought before.
func (s *Nodes) Restored() bool { return s.restored }

// Marks tells of the nodes that are set back, by name.
func (s *Nodes) Marks(now time.Time) (marks []task.NodeMark) {
	for _, name := range slices.Sorted(maps.Keys(s.setBack)) {
		marks = append(marks, s.mark(now, name))
	}
	return marks
}

func (s *Nodes) mark(now time.Time, name string) task.NodeMark {
	n := s.known[name]
	return task.NodeMark{Name: n.Name, Failed: n.Row(), Pauses: n.Pauses, Left: max(0, n.Until.Sub(now)), Why: task.Brief(n.Why)}
}

// Words tell people what is thought of a node; "" is nothing to its harm.
func (s *Nodes) Words(now time.Time, name string) string {
	if s.State(name) == Fit {
		return ""
	}
	return Words(s.mark(now, name))
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

// node returns a node, made when missing.
func (s *Nodes) node(now time.Time, name string) *Node {
	if s.known == nil {
		s.known = make(map[string]*Node)
	}
	n := s.known[name]
	if n == nil {
		n = &Node{Name: name}
		s.known[name] = n
	}
	n.Last = now
	return n
}
