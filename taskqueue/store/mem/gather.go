package mem

// gather looks keys up and lists the records that there are, in the order of
// the keys; none is nil.
func gather[K, R any](keys []K, look func(K) (R, bool)) (found []R) {
	for i, key := range keys {
		record, ok := look(key)
		if !ok {
			continue
		}
		if found == nil {
			found = make([]R, 0, len(keys)-i)
		}
		found = append(found, record)
	}
	return found
}
