package experiment

// Effort is how the runs of an experiment are carried out.
type Effort struct {
	// Each calls do for 0 to n-1, several at once if it likes; nil calls one
	// after the other.
	Each func(n int, do func(i int) error) error
	// Progress is told of every run that is over; nil is silence. Where Each
	// runs several at once, it is called by several at once.
	Progress func()
}

func (e Effort) each(n int, do func(i int) error) error {
	run := func(i int) error {
		err := do(i)
		if err == nil && e.Progress != nil {
			e.Progress()
		}
		return err
	}
	if e.Each != nil {
		return e.Each(n, run)
	}
	for i := range n {
		if err := run(i); err != nil {
			return err
		}
	}
	return nil
}
