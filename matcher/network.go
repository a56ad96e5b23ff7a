package matcher

import (
	"maps"
	"slices"
)

// assignmentNetwork is the sparse matrix as a graph from places to tasks,
// with the solution found so far. A pair that a pilot ranks itself is an arc
// of its own. All other pairs of a class go through a hub: the pilot's base is
// on the arc to the hub, the entry base on the one from there, so that 1,500
// pilots and 5,000 tasks need 6,500 arcs and not 7,500,000. As with Greedy a
// pilot that ranks a task below the base, or refuses it, has a hub alone,
// which leaves out its exceptions.
//
// Every node has a price. The length of an arc from u to v is
// price(u) - weight - price(v), never negative where the solution may still
// change, so that the best change is a shortest path.
type assignmentNetwork struct {
	places  []placeNode // as the bidders
	prefill bool
	hubs    []hubNode
	tasks   []taskNode
	search  pathSearch
}

// nobody has a task that is not placed.
const nobody = -1

type placeNode struct {
	bidder bidder
	supply int // of tasks that the pilot takes at most
	wants  wants
	links  []hubLink
	joined bool // has a price
	price  weight
}

type hubLink struct {
	hub  int
	base weight
	flow int // tasks that the place gets through the hub
}

type hubNode struct {
	tasks   *classTasks
	version uint64
	alone   *bidder // the only member, nil if there may be more
	prefill bool
	members []hubMember
	next    int // first task of the block that may be free
	price   weight
}

type hubMember struct{ place, link int }

// classTasks are the ready tasks of a class.
type classTasks struct {
	first, end int // in network.tasks, in the order of byPreference
	hubs       map[groupKey]int
}

type taskNode struct {
	cell  *cell
	value weight // without the pilot's base
	from  int    // node that has the task, nobody if it is free
	paid  weight // weight of the arc from there
	price weight // 0 while it is free
}

// newAssignmentNetwork builds the graph with no task placed.
func newAssignmentNetwork(g *greedyRun, prefill bool, bidders []bidder) *assignmentNetwork {
	n := &assignmentNetwork{places: make([]placeNode, len(bidders)), prefill: prefill}
	stock := n.stock(g)
	for i, b := range bidders {
		place := &n.places[i]
		place.bidder, place.supply = b, b.supply(g.matrix, prefill)
		if place.supply == 0 {
			continue
		}
		lowered := n.want(g, place, prefill)
		for _, answer := range b.row.answers {
			block, tasks := g.matrix.classes[answer.Class], stock[answer.Class]
			if tasks == nil || !answer.Feasible || answer.PerTask || !b.places.offers(block.need, prefill) {
				continue
			}
			key := groupKey{class: answer.Class, version: min(b.row.version, block.newest), alone: -1}
			if slices.Contains(lowered, answer.Class) || b.kept != nil {
				key.alone = i
			}
			n.link(i, tasks, key, answer.Base)
		}
	}
	n.search.nodes = make([]pathNode, len(n.places)+len(n.hubs)+len(n.tasks))
	return n
}

// stock takes in the tasks that wait, class by class, and numbers their levels.
func (n *assignmentNetwork) stock(g *greedyRun) map[uint32]*classTasks {
	stock := make(map[uint32]*classTasks)
	var levels []int
	for _, block := range g.matrix.classes {
		for at, c := range block.ready {
			if at == 0 || c.level() != block.ready[at-1].level() {
				levels = append(levels, c.level())
			}
		}
	}
	slices.Sort(levels)
	levels = slices.Compact(levels)
	for _, no := range slices.Sorted(maps.Keys(g.matrix.classes)) {
		tasks := &classTasks{first: len(n.tasks), hubs: make(map[groupKey]int)}
		for _, c := range g.matrix.classes[no].ready {
			if c.node = nobody; g.taken(c) || n.prefill && c.reservation != nil {
				continue
			}
			level, _ := slices.BinarySearch(levels, c.level())
			c.node = len(n.tasks)
			n.tasks = append(n.tasks, taskNode{cell: c, from: nobody, value: newWeight(int32(level+1), c.EntryBase)})
		}
		if tasks.end = len(n.tasks); tasks.end > tasks.first {
			stock[no] = tasks
		}
	}
	return stock
}

// want adds the arcs to the tasks that the pilot ranks itself. It returns the
// classes in which it ranks some task lower than the base, or refuses it.
func (n *assignmentNetwork) want(g *greedyRun, place *placeNode, prefill bool) (lowered []uint32) {
	row := place.bidder.row
	var answer ClassAnswer
	known := false
	for i := range row.exceptions {
		e := &row.exceptions[i]
		if !e.cell.ready || e.cell.node == nobody || e.cell.Version > row.version {
			continue
		}
		if !known || answer.Class != e.cell.Class {
			at, found := row.find(e.cell.Class)
			if !found {
				continue
			}
			answer, known = row.answers[at], true
		}
		if !answer.Feasible || !place.bidder.offers(e.cell, prefill) {
			continue
		}
		if (e.clause != "" || e.rank < answer.Base+e.cell.EntryBase) && !slices.Contains(lowered, answer.Class) {
			lowered = append(lowered, answer.Class)
		}
		if e.clause == "" {
			value := newWeight(n.tasks[e.cell.node].value.urgent, e.rank)
			place.wants.heap = append(place.wants.heap, want{int32(e.cell.node), value})
		}
	}
	place.wants.arrange()
	return lowered
}

// link joins a place to the hub of its class and list version.
func (n *assignmentNetwork) link(place int, tasks *classTasks, key groupKey, base float64) {
	at, found := tasks.hubs[key]
	if !found {
		at = len(n.hubs)
		tasks.hubs[key] = at
		hub := hubNode{tasks: tasks, version: key.version, prefill: n.prefill, next: tasks.first, price: unfilled}
		if key.alone >= 0 {
			hub.alone = &n.places[place].bidder
		}
		n.hubs = append(n.hubs, hub)
		if first, found := n.firstFree(&n.hubs[at]); found {
			n.hubs[at].price = n.tasks[first].value
		}
	}
	p := &n.places[place]
	n.hubs[at].members = append(n.hubs[at].members, hubMember{place, len(p.links)})
	p.links = append(p.links, hubLink{hub: at, base: newWeight(0, base)})
}

// firstFree is the best task that nobody has and the hub leads to.
func (n *assignmentNetwork) firstFree(h *hubNode) (int, bool) {
	for h.next < h.tasks.end && (n.tasks[h.next].from != nobody || !h.leadsTo(&n.tasks[h.next])) {
		h.next++
	}
	return h.next, h.next < h.tasks.end
}

func (h *hubNode) leadsTo(t *taskNode) bool {
	if t.cell.Version > h.version {
		return false
	}
	if h.alone == nil {
		return true
	}
	_, excepted := h.alone.row.except(t.cell.No)
	return !excepted && h.alone.offers(t.cell, h.prefill)
}

// pairs are those of the solution, in the order in which Greedy would take them.
func (n *assignmentNetwork) pairs() []candidate {
	var chosen []candidate
	shared := make([][]*cell, len(n.hubs)) // tasks to be shared out by a hub
	for i := range n.tasks {
		switch t := &n.tasks[i]; {
		case t.from == nobody:
		case t.from < len(n.places):
			chosen = append(chosen, n.pair(t.from, t.cell))
		default:
			hub := t.from - len(n.places)
			shared[hub] = append(shared[hub], t.cell)
		}
	}
	for place := range n.places {
		for _, link := range n.places[place].links {
			for range link.flow {
				chosen = append(chosen, n.pair(place, shared[link.hub][0]))
				shared[link.hub] = shared[link.hub][1:]
			}
		}
	}
	slices.SortFunc(chosen, func(a, b candidate) int {
		if a.before(&b) {
			return -1
		}
		return 1
	})
	return chosen
}

// pair is a chosen one with the rank that the pilot has given.
func (n *assignmentNetwork) pair(place int, c *cell) candidate {
	rank, _ := n.places[place].bidder.row.rank(c)
	return newCandidate(c, rank, place, -1)
}
