package matcher

// want is the arc from a place to a task that its pilot ranks itself.
type want struct {
	task  int32
	value weight
}

// wants are the arcs of a place, to be looked at from the largest on. Few are
// ever looked at, so the order is made as far as it is asked for: the front is
// a heap, the end holds what was taken out of it, the largest last.
type wants struct {
	heap  []want
	taken int
}

// arrange makes the heap.
func (w *wants) arrange() {
	for i := len(w.heap)/2 - 1; i >= 0; i-- {
		w.sink(i)
	}
}

// at is the i-th largest want, from 0.
func (w *wants) at(i int) *want {
	for w.taken <= i {
		last := len(w.heap) - 1 - w.taken
		w.heap[0], w.heap[last] = w.heap[last], w.heap[0]
		w.taken++
		w.sink(0)
	}
	return &w.heap[len(w.heap)-1-i]
}

func (w *wants) sink(i int) {
	size := len(w.heap) - w.taken
	for {
		child := 2*i + 1
		if child >= size {
			return
		}
		if right := child + 1; right < size && w.before(right, child) {
			child = right
		}
		if !w.before(child, i) {
			return
		}
		w.heap[i], w.heap[child] = w.heap[child], w.heap[i]
		i = child
	}
}

// before orders by value, then by number, so that equal ones stand still.
func (w *wants) before(i, j int) bool {
	a, b := &w.heap[i], &w.heap[j]
	if a.value != b.value {
		return b.value.less(a.value)
	}
	return a.task < b.task
}
