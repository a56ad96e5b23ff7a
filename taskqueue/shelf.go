package taskqueue

// shelf is the working copy of one table within a turn: what was loaded, what
// is known to be absent, and what changed, in the order of the first change.
type shelf[K comparable, V any] struct {
	held    map[K]*V // a nil value is known to be absent
	changed map[K]struct{}
	order   []K
}

// wanted returns those keys, each once, that have not been looked up yet.
func (s *shelf[K, V]) wanted(keys []K) []K {
	var want []K
	for _, key := range keys {
		if _, known := s.held[key]; !known {
			s.put(key, nil)
			want = append(want, key)
		}
	}
	return want
}

func (s *shelf[K, V]) put(key K, value *V) {
	if s.held == nil {
		s.held = make(map[K]*V)
		s.changed = make(map[K]struct{})
	}
	s.held[key] = value
}

// touch notes that the record of the key is to be saved.
func (s *shelf[K, V]) touch(key K) {
	if _, noted := s.changed[key]; !noted {
		s.changed[key] = struct{}{}
		s.order = append(s.order, key)
	}
}

// take returns the changed records and forgets that they changed.
func (s *shelf[K, V]) take() []V {
	values := make([]V, 0, len(s.order))
	for _, key := range s.order {
		values = append(values, *s.held[key])
	}
	clear(s.changed)
	s.order = nil
	return values
}
