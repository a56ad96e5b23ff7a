package matcher

import "github.com/pilotage-grid/pilotage/task"

// Sequential serves one pilot after the other, by id: each takes the tasks
// that it ranks highest, whatever the task is worth to those who come later.
// It is what a queue does that matches one request at a time (004, section
// IV, pre-DHT; 001, Fig. 3 with n = 1). All free slots come before prefill.
func Sequential(m *Matrix) []Assignment { return InTurn()(m) }

// InTurn is Sequential with the pilots that are named first in the order
// given, for example that of their requests, and all others after them by id.
func InTurn(first ...task.PilotID) Solver {
	return func(m *Matrix) []Assignment {
		return m.oneByOne(first, func(run *greedyRun) {
			for run.open > 0 && len(run.queue) > 0 {
				if best := run.queue[0]; run.available(&best) {
					run.assign(best)
				}
				run.drop()
			}
		})
	}
}

// oneByOne lets each pilot with places choose before the next one may.
func (m *Matrix) oneByOne(first []task.PilotID, choose func(*greedyRun)) []Assignment {
	m.runs++
	run := greedyRun{matrix: m}
	for _, prefill := range []bool{false, true} {
		for _, b := range inTurn(m.bidders(prefill), first) {
			run.start(prefill, []bidder{b})
			choose(&run)
		}
	}
	return run.result
}

// inTurn moves the bidders that are named to the front.
func inTurn(bidders []bidder, first []task.PilotID) []bidder {
	if len(first) == 0 {
		return bidders
	}
	byPilot := make(map[task.PilotID]int, len(bidders))
	for i, b := range bidders {
		byPilot[b.row.pilot] = i
	}
	ordered := make([]bidder, 0, len(bidders))
	for _, pilot := range first {
		if i, found := byPilot[pilot]; found {
			ordered = append(ordered, bidders[i])
			delete(byPilot, pilot)
		}
	}
	for _, b := range bidders {
		if _, left := byPilot[b.row.pilot]; left {
			ordered = append(ordered, b)
		}
	}
	return ordered
}
