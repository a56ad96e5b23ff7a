package coadd

// random is splitmix64 (Steele, Lea, Flood 2014).
type random struct{ state uint64 }

func (r *random) next() uint64 {
	r.state += 0x9E3779B97F4A7C15
	z := r.state
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// below draws from 0 to n-1; n is far below 2^53.
func (r *random) below(n int) int { return int(r.next() >> 11 % uint64(n)) }
