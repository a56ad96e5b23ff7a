package master

import (
	"cmp"
	"slices"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// broadcastDone takes the pilots' rows, states and findings.
func (m *Master) broadcastDone(e BroadcastDone) {
	if !m.inOffice {
		return
	}
	slices.SortStableFunc(e.Answers, func(a, b message.Answer) int { return cmp.Compare(a.Pilot, b.Pilot) })
	m.takeStates(e.Answers)
	holders := make(map[task.FileKey][]*member)
	heard := make(map[task.PilotID]bool, len(e.Answers))
	for _, answer := range e.Answers {
		w := m.holding.site.roster.members[answer.Pilot]
		if w == nil {
			continue
		}
		heard[w.id] = true
		if answer.Update != nil {
			m.holding.site.updateRow(&m.step, w, *answer.Update)
		}
		for _, key := range answer.Have {
			holders[key] = append(holders[key], w)
		}
	}
	m.holding.site.endRound(&m.step, e.N)
	if e.N == m.holding.site.list.round.censusRound {
		m.holding.site.roster.askMissed(&m.step)
	}
	m.searches.searched(&m.step, &m.holding, e.N, holders, m.holding.site.roster.allIn(heard))
	m.endCensus()
	m.returnInfeasible()
}

func (roster *roster) allIn(heard map[task.PilotID]bool) bool {
	for id := range roster.members {
		if !heard[id] {
			return false
		}
	}
	return true
}

// takeStates takes the answers to a census: first the hand-outs that were
// kept, then who has what in hand, then what has ended, successes first. Only
// so a failure of an attempt that was given up is told from one that counts.
func (m *Master) takeStates(answers []message.Answer) {
	var states []message.State
	var members []*member
	for _, answer := range answers {
		w := m.holding.site.roster.members[answer.Pilot]
		if answer.State == nil || w == nil {
			continue // gone by now, or it will introduce itself
		}
		w.talk.heard = m.now
		if answer.State.Number < w.talk.said {
			m.wantState(w) // overtaken by what it has said since
			continue
		}
		w.talk.said, w.talk.seen = answer.State.Number, answer.State.Seen
		m.describe(w, *answer.State)
		states, members = append(states, *answer.State), append(members, w)
	}
	if len(states) == 0 {
		return
	}
	m.holding.takeCopies(&m.step, states)
	for i, w := range members {
		m.holding.site.inHand(&m.step, &m.holding.outbox, w, states[i])
	}
	for _, ok := range []bool{true, false} {
		for i, w := range members {
			for j := range states[i].Outcomes {
				if o := &states[i].Outcomes[j]; o.OK == ok {
					m.takeOutcome(w, o, states[i].Seal, states[i].Seen)
				}
			}
		}
	}
	for i, w := range members {
		m.takeRest(w, states[i])
	}
	m.holding.outbox.syncSoon(&m.step, m.holding.site.handout.gatherDelay(&m.step)) // the site's capacity has changed
}

// endRound ends a round: who has not answered it gets the whole list.
func (site *site) endRound(at *step, round uint64) {
	l := &site.list
	if round == l.round.periodRound {
		l.round.solve = true
	}
	if l.round.open != round {
		return
	}
	l.round.open, l.round.usual = 0, max(at.now.Sub(l.round.sent), l.round.usual*7/8)
	site.replication.replicationChanged(at, &site.roster, &site.list)
	if len(l.round.added) > 0 {
		l.hurry(at.now.Add(at.config.List.RoundLow))
	}
	for _, w := range byKey(site.roster.members) {
		early := w.row.early
		w.row.early = nil
		for _, update := range early {
			site.updateRow(at, w, update)
		}
		if w.described && (!w.row.listed || w.row.n < l.round.openVersion) {
			site.list.greet(at, w)
		}
	}
}

// listAt notes which list a pilot has: a row about an empty list needs not be
// asked for.
func (site *site) listAt(at *step, w *member, version matcher.ListVersion) {
	if version.Term != at.term || w.row.listed {
		return
	}
	switch {
	case version.N == 0:
		site.setRow(at, w, matcher.Row{Pilot: w.id, Version: version})
		if site.list.version.N > 0 && site.list.round.open == 0 {
			site.list.greet(at, w)
		}
	case site.list.round.open != 0 && version.N >= site.list.round.openVersion: // its answer is here or on its way
	case version.N == site.list.version.N:
		at.wantRow(w)
	default:
		site.list.greet(at, w)
	}
}

func (site *site) setRow(at *step, w *member, row matcher.Row) {
	if row.Version.Term != at.term || !site.placing.matrix.SetRow(row) {
		return
	}
	site.placing.marked[w.id] = true
	early := w.row.early
	w.row = rowState{listed: true, n: row.Version.N}
	site.placing.unsolved = true
	site.replication.has(&row)
	site.replication.replicationChanged(at, &site.roster, &site.list)
	for _, update := range early {
		if update.Version.N > row.Version.N {
			site.updateRow(at, w, update)
		}
	}
	if !w.idleSince.IsZero() {
		site.placing.retractSoon(at)
	}
}

// maxEarlyUpdates bounds the row updates that wait for the end of a round or
// for a whole row.
const maxEarlyUpdates = 1000

// updateRow takes a change of a row. Answers to a broadcast take the long way
// over other pilots, so they and what builds on them may come in any order
// with what a pilot says directly.
func (site *site) updateRow(at *step, w *member, u matcher.RowUpdate) {
	if empty := (matcher.ListVersion{Term: at.term}); !w.row.listed && u.Base == empty {
		site.setRow(at, w, matcher.Row{Pilot: w.id, Version: empty})
	}
	switch {
	case u.Version.Term != at.term:
	case !w.row.listed:
		at.wantRow(w)
	case u.Base.N < u.Version.N && u.Version.N <= w.row.n: // a whole row has overtaken it
	case u.Base.N > w.row.n && (site.list.round.open != 0 || !w.row.asked.IsZero()) && len(w.row.early) < maxEarlyUpdates:
		w.row.early = append(w.row.early, u)
		// What it says of tasks that the matrix knows holds at once: while a round of a
		// large site is on its way, readers would go to others than the pilots that have
		// just made their files.
		site.exceptInRow(at, w, u.Set, u.Clear)
	default:
		site.changeRow(at, w, u)
	}
}

// exceptInRow changes what a row says of single tasks, whatever list it answers.
func (site *site) exceptInRow(at *step, w *member, set []matcher.Exception, clear []uint64) {
	empty := matcher.ListVersion{Term: at.term}
	site.changeRow(at, w, matcher.RowUpdate{Pilot: w.id, Base: empty, Version: empty, Set: set, Clear: clear})
}

// changeRow puts a change of a row into the matrix, or has the whole row told.
func (site *site) changeRow(at *step, w *member, u matcher.RowUpdate) {
	if err := site.placing.matrix.UpdateRow(u); err != nil {
		at.wantRow(w)
		return
	}
	w.row.n = max(w.row.n, u.Version.N)
	site.placing.unsolved = true
	site.placing.marked[w.id] = true
	site.replication.moved(w.id, u.Came, u.Left)
}

// refuse notes that a pilot will not run a task, so that it does not get it
// again before its row says otherwise.
func (site *site) refuse(at *step, w *member, h *held, reason string) {
	if h.no == 0 || !w.row.listed {
		return
	}
	site.exceptInRow(at, w, []matcher.Exception{{No: h.no, Infeasible: true, FailedClause: reason}}, nil)
}

// returnInfeasible gives classes back that no live pilot can run, with the
// counts of the clauses that they fail.
func (m *Master) returnInfeasible() {
	for _, no := range m.holding.site.placing.matrix.Infeasible() {
		class, listed := m.holding.site.list.byNo[no]
		if !listed || !m.holding.site.mayStart(&m.step, &m.holding.outbox) || m.holding.site.roster.undescribed() || m.holding.site.anywhere(&m.step, no) {
			continue
		}
		m.returnClass(class, m.holding.site.placing.matrix.WhyNot(no))
		if class.Rank == m.settings.Rank && class.Rank != "" {
			class.Rank = "" // as the queue knows the tasks that the site gives its rank
			m.returnClass(class, m.holding.site.placing.matrix.WhyNot(no))
		}
	}
}

// returnClass gives a class back, if tasks of it wait.
func (m *Master) returnClass(class task.Class, why matcher.Explanation) {
	if m.holding.site.handout.counts.classes[class] == 0 {
		return
	}
	refusal := task.Refusal{Class: class, Pilots: why.Pilots}
	for _, count := range why.Clauses {
		refusal.Clauses = append(refusal.Clauses, task.ClauseCount{Clause: count.Clause, Pilots: count.Pilots})
	}
	m.holding.outbox.refused = append(m.holding.outbox.refused, refusal)
	for _, h := range byKey(m.holding.site.handout.held) {
		if h.phase <= ready && h.Task.Class() == class {
			m.holding.giveBack(&m.step, h, "no pilot of the site can run it")
		}
	}
	m.holding.outbox.syncSoon(&m.step, 0)
}
