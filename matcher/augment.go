package matcher

// fill gives one more task to a place, by the chain of changes that is worth
// most: the task may come from another place, which gets another one instead,
// and so on to a free task or to a place that stays empty. It returns false if
// the place itself stays empty.
func (n *assignmentNetwork) fill(place int) bool {
	n.join(place)
	n.shortest(place)
	for _, node := range n.search.settled {
		price := n.price(node)
		*price = price.add(n.search.nodes[node].length).sub(n.search.best.length)
	}
	if n.search.best.node == place {
		return false
	}
	n.change(place)
	return true
}

// join gives a place its first price: what it can gain.
func (n *assignmentNetwork) join(place int) {
	p := &n.places[place]
	if p.joined {
		return
	}
	p.joined, p.price = true, unfilled
	for _, want := range p.wants.heap {
		p.price = larger(p.price, want.value.add(n.tasks[want.task].price))
	}
	for _, link := range p.links {
		p.price = larger(p.price, link.base.add(n.hubs[link.hub].price))
	}
}

func (n *assignmentNetwork) hubNode(hub int) int   { return len(n.places) + hub }
func (n *assignmentNetwork) taskNode(task int) int { return len(n.places) + len(n.hubs) + task }

func (n *assignmentNetwork) price(node int) *weight {
	switch places, hubs := len(n.places), len(n.hubs); {
	case node < places:
		return &n.places[node].price
	case node < places+hubs:
		return &n.hubs[node-places].price
	default:
		return &n.tasks[node-places-hubs].price
	}
}

// change gives the tasks along the path to those who get them.
func (n *assignmentNetwork) change(place int) {
	s := &n.search
	node, from, arc := s.best.node, s.from, s.arc
	if node < len(n.places) { // it loses a task and stays with room
		from, arc = int(s.nodes[node].from), int(s.nodes[node].arc)
	}
	for {
		switch hubs, tasks := len(n.places), len(n.places)+len(n.hubs); {
		case node >= tasks:
			n.give(node-tasks, from, arc)
		case node >= hubs && from < hubs:
			n.places[from].links[arc].flow++
		case node < hubs && from >= hubs && from < tasks:
			member := n.hubs[from-hubs].members[arc]
			n.places[member.place].links[member.link].flow--
		}
		if node = from; node == place {
			return
		}
		from, arc = int(s.nodes[node].from), int(s.nodes[node].arc)
	}
}

func (n *assignmentNetwork) give(task, from, arc int) {
	t := &n.tasks[task]
	t.from, t.paid = from, t.value
	if from < len(n.places) {
		t.paid = n.places[from].wants.at(arc).value
	}
}
