package matcher

// pathSearch is the state of one search for a shortest path, kept between
// searches to save the allocations. Nodes are numbered: places, then hubs,
// then tasks.
type pathSearch struct {
	run     int32
	nodes   []pathNode
	queue   []pathStep
	settled []int
	best    pathStep // to the end of the path: a free task, or a place that stays empty
	from    int      // node before that task
	arc     int      // number of the arc to it at that node
}

type pathNode struct {
	run     int32 // that has reached it
	settled bool
	length  weight
	from    int32 // node before it on the path
	arc     int32 // number of the arc at its place
}

type pathStep struct {
	length weight
	node   int
}

// shortest searches from a place with room to the nearest end (Dijkstra).
func (n *assignmentNetwork) shortest(place int) {
	s := &n.search
	s.run++
	s.queue, s.settled = s.queue[:0], s.settled[:0]
	s.best = pathStep{n.places[place].price.sub(unfilled), place}
	s.reach(place, nobody, 0, weight{})
	for len(s.queue) > 0 {
		step := s.pop()
		node := &s.nodes[step.node]
		if node.settled {
			continue
		}
		if !step.length.less(s.best.length) {
			return
		}
		node.settled = true
		s.settled = append(s.settled, step.node)
		switch {
		case step.node < len(n.places):
			n.leavePlace(step.node, step.length)
		case step.node < len(n.places)+len(n.hubs):
			n.leaveHub(step.node-len(n.places), step.length)
		default:
			t := &n.tasks[step.node-len(n.places)-len(n.hubs)]
			s.reach(t.from, step.node, 0, step.length.beyond(t.paid.add(t.price).sub(*n.price(t.from))))
		}
	}
}

// reach notes a way to a node if it is the shortest so far and shorter than
// the path at hand.
func (s *pathSearch) reach(node, from, arc int, length weight) {
	if !s.closer(node, length) {
		return
	}
	s.nodes[node] = pathNode{run: s.run, length: length, from: int32(from), arc: int32(arc)}
	s.push(pathStep{length, node})
}

func (s *pathSearch) closer(node int, length weight) bool {
	known := &s.nodes[node]
	return length.less(s.best.length) && (known.run != s.run || !known.settled && length.less(known.length))
}

// near tells that a node has been reached within a length.
func (s *pathSearch) near(node int, length weight) bool {
	known := &s.nodes[node]
	return known.run == s.run && !length.less(known.length)
}

// end notes a path to a free task, or to a place that stays empty.
func (s *pathSearch) end(node, from, arc int, length weight) {
	if length.less(s.best.length) {
		s.best, s.from, s.arc = pathStep{length, node}, from, arc
	}
}

// push and pop keep the queue a heap with the shortest path in front.
func (s *pathSearch) push(step pathStep) {
	s.queue = append(s.queue, step)
	for i := len(s.queue) - 1; i > 0; {
		parent := (i - 1) / 2
		if !s.queue[i].length.less(s.queue[parent].length) {
			return
		}
		s.queue[i], s.queue[parent] = s.queue[parent], s.queue[i]
		i = parent
	}
}

func (s *pathSearch) pop() pathStep {
	first, last := s.queue[0], len(s.queue)-1
	s.queue[0] = s.queue[last]
	s.queue = s.queue[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			return first
		}
		if right := child + 1; right < last && s.queue[right].length.less(s.queue[child].length) {
			child = right
		}
		if !s.queue[child].length.less(s.queue[i].length) {
			return first
		}
		s.queue[i], s.queue[child] = s.queue[child], s.queue[i]
		i = child
	}
}

func (n *assignmentNetwork) leavePlace(place int, length weight) {
	p, s := &n.places[place], &n.search
	s.end(place, nobody, 0, length.beyond(p.price.sub(unfilled)))
	for i := range p.wants.heap {
		want := p.wants.at(i)
		beyond := length.beyond(p.price.sub(want.value))
		if !beyond.less(s.best.length) {
			break // no task has a price above zero
		}
		switch t := &n.tasks[want.task]; t.from {
		case nobody:
			s.end(n.taskNode(int(want.task)), place, i, beyond)
		case place:
		default:
			s.reach(n.taskNode(int(want.task)), place, i, length.beyond(p.price.sub(want.value).sub(t.price)))
		}
	}
	for i, link := range p.links {
		s.reach(n.hubNode(link.hub), place, i, length.beyond(p.price.sub(link.base).sub(n.hubs[link.hub].price)))
	}
}

func (n *assignmentNetwork) leaveHub(hub int, length weight) {
	h, node, s := &n.hubs[hub], n.hubNode(hub), &n.search
	if first, found := n.firstFree(h); found {
		s.end(n.taskNode(first), node, 0, length.beyond(h.price.sub(n.tasks[first].value)))
	}
	// What comes after the first free task is no better than that one: no task
	// has a price above zero.
	for task := h.tasks.first; task < h.next; task++ {
		t := &n.tasks[task]
		if t.from == node || t.from == nobody || s.near(n.taskNode(task), length) {
			continue
		}
		beyond := length.beyond(h.price.sub(t.value))
		if !beyond.less(s.best.length) {
			break
		}
		if beyond = length.beyond(h.price.sub(t.value).sub(t.price)); s.closer(n.taskNode(task), beyond) && h.leadsTo(t) {
			s.reach(n.taskNode(task), node, 0, beyond)
		}
	}
	for i, member := range h.members {
		p := &n.places[member.place]
		if link := &p.links[member.link]; link.flow > 0 {
			s.reach(member.place, node, i, length.beyond(link.base.add(h.price).sub(p.price)))
		}
	}
}
