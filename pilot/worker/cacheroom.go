package worker

// Several attempts of a pilot may need more room in the cache than it has. Then
// each would hold what it has got and wait for the rest, or fail, for ever. So
// an attempt that finds no room lets go of what it has got and waits until another
// one of this pilot ends; the oldest goes first, and those that have no slot
// yet make room for it. One that finds no room alone has failed.

// stage begins to fetch and pin the inputs of an attempt.
func (s *attempts) stage(at *step, a *attempt) {
	a.phase, a.beside = staging, false
	for _, other := range s.inHand {
		if other != a && other.phase > crowded {
			a.beside, other.beside = true, true
		}
	}
	at.act(StageIn{Attempt: a.id, Files: a.Files})
}

// crowdOut lets an attempt wait for room.
func (s *attempts) crowdOut(at *step, a *attempt) {
	a.phase = crowded
	at.act(Discard{Attempt: a.id})
}

// passCrowded lets the oldest attempt that waits for room try again when there may
// be some: another one has let go of its inputs, or none has any.
func (s *attempts) passCrowded(at *step) {
	var oldest *attempt
	for _, a := range s.which(func(a *attempt) bool { return a.phase == crowded }) {
		if oldest == nil || a.holding && !oldest.holding {
			oldest = a
		}
	}
	if oldest == nil {
		return
	}
	if oldest.holding {
		for _, a := range s.which(func(a *attempt) bool { return a.phase == staged && !a.holding }) {
			s.crowdOut(at, a)
			s.roomier = true
		}
	}
	if s.roomier || s.count(func(a *attempt) bool { return a.phase > crowded }) == 0 {
		s.roomier = false
		s.stage(at, oldest)
	}
}
