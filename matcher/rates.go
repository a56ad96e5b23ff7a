package matcher

import (
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// Rates are the observed speeds at which a site's pilots read files, in bytes
// per second. Reading from the own cache costs nothing: inputs are linked.
type Rates struct {
	Peer    float64
	SE      float64
	Remote  float64
	PerFile time.Duration // fixed cost of each file that is not in the cache
}

// DefaultRates serve until a site has observed its own: a 1 Gb/s LAN, a
// storage element that is half as fast for each of many readers, a distant
// one half as fast again, and the round trips of a lookup and a request.
func DefaultRates() Rates {
	return Rates{Peer: 100e6, SE: 50e6, Remote: 25e6, PerFile: 10 * time.Millisecond}
}

// Seconds is the time to fetch one file that is not in the cache. A file of
// unknown size costs the fixed part only.
func (r Rates) Seconds(file FileInfo) float64 {
	speed := r.SE
	switch file.Source {
	case task.SourcePeer:
		speed = r.Peer
	case task.SourceRemote:
		speed = r.Remote
	}
	seconds := r.PerFile.Seconds()
	if file.Size > 0 && speed > 0 {
		seconds += float64(file.Size) / speed
	}
	return seconds
}
