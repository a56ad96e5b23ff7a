package page

import (
	"sync"
	"time"
)

// Look is how everything is at one moment. Names are short: it is sent to every
// viewer each second.
type Look struct {
	Time     int64      `json:"t"` // ms since 1970
	Ready    int        `json:"ready"`
	Waiting  int        `json:"waiting"` // held by sites
	Running  int        `json:"running"`
	Done     uint64     `json:"done"`
	Failed   uint64     `json:"failed"` // attempts
	Requests uint64     `json:"requests"`
	Sites    []SiteLook `json:"sites"`
}

// SiteLook is one site.
type SiteLook struct {
	Name     string    `json:"name"`
	Mode     string    `json:"mode"`
	Note     string    `json:"note,omitempty"` // draining, fallen back, without master
	Master   string    `json:"master,omitempty"`
	Pilots   int       `json:"pilots"`
	Slots    int       `json:"slots"`
	Free     int       `json:"free"`
	Running  int       `json:"running"`
	Waiting  int       `json:"waiting"`
	Done     uint64    `json:"done"`
	Failed   uint64    `json:"failed"`
	Reads    [4]uint64 `json:"reads"` // local, peer, storage element, remote
	Bytes    [4]uint64 `json:"bytes"`
	Cache    uint64    `json:"cache"`
	Used     uint64    `json:"used"`
	SetBack  int       `json:"set_back"`
	DelayP50 float64   `json:"delay_p50"` // seconds
	DelayP99 float64   `json:"delay_p99"`
}

// Bar is one attempt in the chart of slots.
type Bar struct {
	Site    string `json:"-"`
	Task    string `json:"task"`
	Attempt string `json:"id"` // among all attempts
	Pilot   string `json:"pilot"`
	Start   int64  `json:"start"` // of the payload, ms since 1970
	StageIn int64  `json:"in"`    // ms before it
	Run     int64  `json:"run"`   // ms; 0 while it runs
	OK      bool   `json:"ok"`
	Source  int    `json:"source"` // where most of its bytes came from: 0 local, 1 peer, 2 storage element, 3 remote
	number  uint64
}

const (
	lookEvery   = time.Second
	keepLooks   = 720     // of Record
	keepBars    = 20_000  // ended
	keepRunning = 100_000 // running
	barsASecond = 150     // to one viewer
)

// live is what the page remembers: looks for charts, and attempts.
type live struct {
	mu      sync.Mutex
	viewers int
	at      time.Time // of newestLook
	current Look
	err     error
	looks   []Look
	bars    []Bar // ended, a ring by number
	running map[string]Bar
	number  uint64

	taking sync.Mutex // one look at a time
}

func newLive() *live { return &live{running: make(map[string]Bar)} }

func (l *live) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.viewers >= maxViewers {
		return false
	}
	l.viewers++
	return true
}

func (l *live) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.viewers--
}

// look returns a look that is not older than fresh, and takes one if there is none.
func (l *live) look(now time.Time, fresh time.Duration, take func() (Look, error)) (Look, error) {
	l.taking.Lock()
	defer l.taking.Unlock()
	if now.Sub(l.at) >= fresh*9/10 || l.err != nil {
		l.current, l.err = take()
		l.at = now
	}
	return l.current, l.err
}

func (l *live) keep(look Look) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.looks = append(l.looks, look)
	if len(l.looks) > keepLooks {
		l.looks = append(l.looks[:0], l.looks[len(l.looks)-keepLooks:]...)
	}
}

func (l *live) began(bars []Bar) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, bar := range bars {
		if len(l.running) < keepRunning {
			l.number++
			bar.number = l.number
			l.running[bar.Attempt] = bar
		}
	}
}

func (l *live) ended(bars []Bar) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, bar := range bars {
		delete(l.running, bar.Attempt)
		l.number++
		bar.number = l.number
		l.bars = append(l.bars, bar)
	}
	if len(l.bars) > keepBars+keepBars/4 {
		l.bars = append(l.bars[:0], l.bars[len(l.bars)-keepBars:]...)
	}
}

func (l *live) newest() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.number
}

// since returns what has happened at a site after a number: at most so many
// attempts, the newest if there are more.
func (l *live) since(site string, after uint64, most int) (bars []Bar, newest uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := len(l.bars) - 1; i >= 0 && l.bars[i].number > after && len(bars) < most; i-- {
		if l.bars[i].Site == site {
			bars = append(bars, l.bars[i])
		}
	}
	for _, bar := range l.running {
		if len(bars) >= most {
			break
		}
		if bar.Site == site && bar.number > after {
			bars = append(bars, bar)
		}
	}
	return bars, l.number
}

// History is what a viewer gets at first.
type History struct {
	Looks []Look `json:"looks"`
	Bars  []Bar  `json:"bars"`
}

const historyBars = 5_000

func (l *live) history(site string) History {
	h := History{Looks: []Look{}, Bars: []Bar{}}
	if site != "" {
		h.Bars, _ = l.since(site, 0, historyBars)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	step := 1 + len(l.looks)/240
	for i := (len(l.looks) - 1) % step; i >= 0 && i < len(l.looks); i += step {
		h.Looks = append(h.Looks, l.looks[i])
	}
	return h
}
