package dht

import (
	"container/heap"
	"time"
)

// nowhere is the place of a holding that is not in the agenda.
const nowhere = -1

// agenda is a heap of holdings by the time when they are due.
type agenda struct{ list []*holding }

func (g *agenda) Len() int { return len(g.list) }
func (g *agenda) Less(i, j int) bool {
	if !g.list[i].due.Equal(g.list[j].due) {
		return g.list[i].due.Before(g.list[j].due)
	}
	return g.list[i].file < g.list[j].file
}
func (g *agenda) Swap(i, j int) {
	g.list[i], g.list[j] = g.list[j], g.list[i]
	g.list[i].place, g.list[j].place = i, j
}

// Push satisfies heap.Interface.
func (g *agenda) Push(x any) {
	h := x.(*holding)
	h.place = len(g.list)
	g.list = append(g.list, h)
}

// Pop satisfies heap.Interface.
func (g *agenda) Pop() any {
	last := g.list[len(g.list)-1]
	g.list[len(g.list)-1] = nil
	g.list = g.list[:len(g.list)-1]
	last.place = nowhere
	return last
}

// put sets when a holding is due; zero: not at all.
func (g *agenda) put(h *holding, due time.Time) {
	g.drop(h)
	if !due.IsZero() {
		h.due = due
		heap.Push(g, h)
	}
}

// hasten has a holding looked at no later than due.
func (g *agenda) hasten(h *holding, due time.Time) {
	if h.place == nowhere || due.Before(h.due) {
		g.put(h, due)
	}
}

func (g *agenda) drop(h *holding) {
	if h.place != nowhere {
		heap.Remove(g, h.place)
	}
}

// take removes and returns what is due.
func (g *agenda) take(now time.Time) []*holding {
	var due []*holding
	for len(g.list) > 0 && !now.Before(g.list[0].due) {
		due = append(due, heap.Pop(g).(*holding))
	}
	return due
}

func (g *agenda) next() time.Time {
	if len(g.list) == 0 {
		return time.Time{}
	}
	return g.list[0].due
}
