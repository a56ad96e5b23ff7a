package taskqueue

// When a turn cannot do what it is asked for, because the store fails, a record is
// not there that it is about, or a rule forbids it, its transaction is abandoned,
// whatever was done before. So no rule hands such an error up step by step: it ends the
// turn where it is met, by a panic that does not leave this package (every exported rule
// defers queue.close or catch, which return its error), as encoding/gob ends a decoding
// (docs/decisions/0018).

// ended is how a turn ends early.
type ended struct{ err error }

// end ends the turn with an error.
func end(err error) { panic(ended{err}) }

// check ends the turn unless it may go on.
func check(err error) {
	if err != nil {
		end(err)
	}
}

// read returns what the store has read, if it could.
func read[V any](value V, err error) V {
	check(err)
	return value
}

// catch makes the error that ended a turn that of the caller.
func catch(err *error) {
	if broken := recover(); broken != nil {
		*err = whyEnded(broken)
	}
}

// whyEnded is the error that ended a turn; a panic of another kind goes on.
func whyEnded(broken any) error {
	turn, ours := broken.(ended)
	if !ours {
		panic(broken)
	}
	return turn.err
}
