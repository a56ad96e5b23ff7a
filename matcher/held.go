package matcher

import "math/bits"

// held is a set of entry numbers. Numbers of one term rise and old ones
// leave, so a window of bits suffices: 10,000 tasks take little over 1 KB.
type held struct {
	first uint64 // number of the first word's first bit, a multiple of 64
	words []uint64
	count int
}

func (h *held) has(no uint64) bool {
	word := (no - h.first) / 64
	return no >= h.first && word < uint64(len(h.words)) && h.words[word]&(1<<(no%64)) != 0
}

// add returns false if the number was there.
func (h *held) add(no uint64) bool {
	if h.has(no) {
		return false
	}
	start := no - no%64
	if len(h.words) == 0 {
		h.first = start
	}
	if start < h.first {
		h.words = append(make([]uint64, (h.first-start)/64, (h.first-start)/64+uint64(len(h.words))), h.words...)
		h.first = start
	}
	for uint64(len(h.words)) <= (no-h.first)/64 {
		h.words = append(h.words, 0)
	}
	h.words[(no-h.first)/64] |= 1 << (no % 64)
	h.count++
	return true
}

// remove returns false if the number was not there.
func (h *held) remove(no uint64) bool {
	if !h.has(no) {
		return false
	}
	h.words[(no-h.first)/64] &^= 1 << (no % 64)
	h.count--
	empty := 0
	for empty < len(h.words) && h.words[empty] == 0 {
		empty++
	}
	if empty == len(h.words) {
		*h = held{}
	} else if empty > len(h.words)/2 {
		h.words = append([]uint64(nil), h.words[empty:]...)
		h.first += 64 * uint64(empty)
	}
	return true
}

// all yields the numbers in rising order.
func (h *held) all(yield func(uint64) bool) {
	for i, word := range h.words {
		for ; word != 0; word &= word - 1 {
			if !yield(h.first + 64*uint64(i) + uint64(bits.TrailingZeros64(word))) {
				return
			}
		}
	}
}
