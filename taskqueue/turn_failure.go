package taskqueue

// When a turn cannot do what it is asked for, because the store fails, a record is
// not there that it is about, or a rule forbids it, its transaction is abandoned,
// whatever was done before. So no rule hands such an error up step by step: it ends the
// turn where it is met, by a panic that does not leave the turn, as encoding/gob ends a
// decoding (docs/decisions/0018): every exported rule defers queue.close or catch, which
// return its error, and whoever looks into the store itself does so by In.

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

// In carries out what a caller does in a turn, and returns the error that ended it.
func In(t *Turn, do func(*Turn) error) (err error) {
	defer catch(&err)
	return do(t)
}

// Check and Read are for what is carried out by In: Check ends the turn unless it may go on.
func Check(err error) { check(err) }

// Read returns what the store has read, if it could; else the turn is over.
func Read[V any](value V, err error) V { return read(value, err) }

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
