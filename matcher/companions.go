package matcher

import (
	"slices"

	"github.com/pilotage-grid/pilotage/task"
)

// company is a set of tasks, the companions, that make inputs of one reader: if
// one pilot runs them all, the reader finds all of them in one cache
// (co-location of producers). A company's home is the pilot that has begun it.
// Its other tasks are promised to that one: it takes them before others that it
// ranks alike, and another pilot gets one of them only in a free slot, and only
// when no other task of that level is there for it, so that no slot waits.
// Who raises a task, mostly because it has its inputs, may take it all the same:
// to spare a copy now is worth as much as to spare one later.
type company struct {
	no    uint64
	cells []*cell   // listed
	home  *pilotRow // nil: nobody had begun it before this solution
	begun *pilotRow // who has begun it in that run of the solver
	run   uint64
}

// SetCompany puts a task into a company; 0 takes it out of any. A company is
// forgotten with its last task. Greedy keeps companions together where free
// slots wait for nobody else's tasks, that is, with a Patience.
func (m *Matrix) SetCompany(no, of uint64) {
	c := m.tasks[no]
	if c == nil || c.company != nil && c.company.no == of {
		return
	}
	m.part(c)
	if of == 0 {
		return
	}
	if m.companies[of] == nil {
		m.companies[of] = &company{no: of}
	}
	c.company = m.companies[of]
	c.company.cells = append(c.company.cells, c)
}

// SetHome says which pilot has begun a company; "", or a pilot that is not
// known: none.
func (m *Matrix) SetHome(of uint64, pilot task.PilotID) {
	company := m.companies[of]
	if company == nil || company.home != nil && company.home.pilot == pilot {
		return
	}
	company.leaveHome()
	if at, found := m.findPilot(pilot); found {
		company.home = m.rows[at]
		company.home.companies = append(company.home.companies, company)
	}
}

// part takes a task out of its company.
func (m *Matrix) part(c *cell) {
	company := c.company
	if company == nil {
		return
	}
	c.company = nil
	company.cells = slices.DeleteFunc(company.cells, func(other *cell) bool { return other == c })
	if len(company.cells) == 0 {
		company.leaveHome()
		delete(m.companies, company.no)
	}
}

func (c *company) leaveHome() {
	if c.home != nil {
		c.home.companies = slices.DeleteFunc(c.home.companies, func(other *company) bool { return other == c })
		c.home = nil
	}
}

// promised is the pilot that a task is promised to: the home of its company, if
// that one can run it. One that was passed over too often goes before others all
// the same: promises order tasks of one level.
func (g *greedyRun) promised(c *cell) *pilotRow {
	if !g.colocating || c.company == nil {
		return nil
	}
	home := c.company.home
	if home == nil && c.company.run == g.matrix.runs {
		home = c.company.begun
	}
	if home == nil {
		return nil
	}
	if _, feasible := home.rank(c); !feasible {
		return nil
	}
	return home
}

// begin has the bidder that was given a task run its companions, too, if they
// are nobody's yet.
func (g *greedyRun) begin(choice candidate) {
	of := choice.cell.company
	if !g.colocating || of == nil || of.home != nil || of.run == g.matrix.runs {
		return
	}
	row := g.bidders[choice.bidder].row
	of.begun, of.run = row, g.matrix.runs
	if g.begun == nil {
		g.begun = make(map[*pilotRow][]*company)
	}
	g.begun[row] = append(g.begun[row], of)
	for _, c := range g.companions(int(choice.bidder), of) {
		g.queue.add(c)
	}
}

// collectCompanions queues what is promised to a bidder.
func (g *greedyRun) collectCompanions(i int) {
	if !g.colocating {
		return
	}
	row := g.bidders[i].row
	for _, company := range row.companies {
		g.queue = append(g.queue, g.companions(i, company)...)
	}
	for _, company := range g.begun[row] {
		g.queue = append(g.queue, g.companions(i, company)...)
	}
}

// companions are the pairs of a bidder with the tasks of a company that are
// promised to it.
func (g *greedyRun) companions(i int, of *company) (pairs []candidate) {
	b := &g.bidders[i]
	for _, c := range of.cells {
		if !c.ready || g.taken(c) || g.promised(c) != b.row || !b.offers(c, g.prefill) ||
			g.leaves(c, b.waits) && !slices.Contains(c.keepers, b.row) {
			continue
		}
		rank, _ := b.row.rank(c)
		pair := newCandidate(c, rank, i, -1)
		pair.promised = true
		pairs = append(pairs, pair)
	}
	return pairs
}

// putOff lets a pair wait until all others of its priority are taken, because
// its task is promised to another pilot by now; early that one alone gets it.
func (g *greedyRun) putOff(best *candidate) bool {
	if best.late || best.raised {
		return false
	}
	home := g.promised(best.cell)
	if home == nil || home == g.bidders[best.bidder].row {
		return false
	}
	if best.group < 0 && !g.prefill {
		later := *best
		later.late = true
		g.queue.replaceFirst(later)
	} else {
		g.drop() // a group comes to such tasks by itself
	}
	return true
}
