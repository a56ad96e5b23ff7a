package matcher

import (
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// Rates are the speeds at which a site's pilots read files, in bytes per second.
// Reading from the own cache costs nothing: inputs are linked.
type Rates struct {
	Peer    float64
	SE      float64
	Remote  float64
	PerFile time.Duration // fixed cost of each file that is not in the cache
}

// DefaultRates are a 1 Gb/s LAN, a storage element that is half as fast for each of
// many readers, a distant one half as fast again, and the round trips of a lookup and
// a request. A site's own speed is a Pace beside them.
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

// Pace is how many times as long stage-in takes at a site as DefaultRates say, by what
// its pilots have read lately. The zero value has seen nothing. All ranks of a site's
// list keep the default rates, so a new pace ranks nothing anew.
type Pace struct{ expected, took float64 }

const (
	// paceKnown is the seconds of stage-in that the default rates weigh against those
	// that were seen.
	paceKnown = 10
	// paceKept is the seconds beyond which older ones count half.
	paceKept = 1000
)

// Learn takes in what an attempt has read and how long its stage-in took.
func (p *Pace) Learn(reads []task.Read, took time.Duration) {
	expected := 0.0
	for i := range reads {
		if read := &reads[i]; read.Source != task.SourceLocal {
			expected += DefaultRates().Seconds(FileInfo{Size: read.Size, Source: read.Source})
		}
	}
	if expected == 0 {
		return
	}
	p.expected, p.took = p.expected+expected, p.took+took.Seconds()
	if p.expected > paceKept {
		p.expected, p.took = p.expected/2, p.took/2
	}
}

// Times is that factor.
func (p *Pace) Times() float64 { return (p.took + paceKnown) / (p.expected + paceKnown) }
