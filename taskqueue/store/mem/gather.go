package mem

// gather looks keys up and lists the records that there are, in the order of
// the keys; none is nil. Records are read to where they are listed.
func gather[K, R any](keys []K, read func(K, *R) bool) (found []R) {
	for i, key := range keys {
		if found == nil {
			found = make([]R, 0, len(keys)-i)
		}
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
