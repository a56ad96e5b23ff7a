package sim

import (
	"slices"
	"time"
)

// Agenda holds what is planned, the next of it first: in the order of time, and within
// one moment in the order in which it was planned.
//
// Long runs spend much of their time here. So what decides on the order stands in the
// heap itself, and nothing is put on Go's heap. It has four children to a place.
type Agenda[T any] struct {
	serial uint64
	heap   []Planned[T]
}

// Planned is a value at its moment.
type Planned[T any] struct {
	At    time.Duration
	Value T

	serial uint64
}

func (p *Planned[T]) before(other *Planned[T]) bool {
	return p.At < other.At || p.At == other.At && p.serial < other.serial
}

// Len is how much is planned.
func (a *Agenda[T]) Len() int { return len(a.heap) }

// First is what comes next, of at least one.
func (a *Agenda[T]) First() *Planned[T] { return &a.heap[0] }

// Put plans something.
func (a *Agenda[T]) Put(at time.Duration, value T) {
	a.serial++
	p := Planned[T]{At: at, Value: value, serial: a.serial}
	a.heap = append(a.heap, p)
	i := len(a.heap) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !p.before(&a.heap[parent]) {
			break
		}
		a.heap[i] = a.heap[parent]
		i = parent
	}
	a.heap[i] = p
}

// Take removes what comes next, of at least one.
func (a *Agenda[T]) Take() Planned[T] {
	first, end := a.heap[0], len(a.heap)-1
	last := a.heap[end]
	a.heap[end] = Planned[T]{}
	if a.heap = a.heap[:end]; end > 0 {
		a.down(0, last)
	}
	return first
}

// Drop removes what is not wanted any more.
func (a *Agenda[T]) Drop(unwanted func(T) bool) {
	a.heap = slices.DeleteFunc(a.heap, func(p Planned[T]) bool { return unwanted(p.Value) })
	for i := (len(a.heap)+2)/4 - 1; i >= 0; i-- {
		a.down(i, a.heap[i])
	}
}

// down puts something where it belongs, from the empty place at i on towards the end.
func (a *Agenda[T]) down(i int, p Planned[T]) {
	for {
		first := 4*i + 1
		if first >= len(a.heap) {
			break
		}
		least := first
		for child := first + 1; child < min(first+4, len(a.heap)); child++ {
			if a.heap[child].before(&a.heap[least]) {
				least = child
			}
		}
		if !a.heap[least].before(&p) {
			break
		}
		a.heap[i] = a.heap[least]
		i = least
	}
	a.heap[i] = p
}
