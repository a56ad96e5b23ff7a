package mem

// gather looks keys up and lists the records that there are, in the order of
// the keys; none is nil. Records are read to where they are listed.
func gather[K, R any](keys []K, read func(K, *R) bool) []R {
	if len(keys) == 0 {
		return nil
	}
	found := make([]R, 0, len(keys))
	for _, key := range keys {
		found = found[:len(found)+1]
		if !read(key, &found[len(found)-1]) {
			found = found[:len(found)-1]
		}
	}
	if len(found) == 0 {
		return nil
	}
	return found
}

// lookUp gathers copies of rows that callers may keep.
func lookUp[K, R any](keys []K, row func(K) (*R, bool), copies copier[R]) []R {
	return gather(keys, func(key K, record *R) bool {
		row, ok := row(key)
		if ok {
			copies.load(record, row)
		}
		return ok
	})
}
