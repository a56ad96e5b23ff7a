package page

import (
	"strconv"
	"sync"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// Look is how everything is at one moment. Names are short: it is sent to every
// viewer each second.
type Look struct {
	Time     int64      `json:"t"` // ms since 1970
	Blocked  int        `json:"blocked"`
	Ready    int        `json:"ready"`
	Unstored int        `json:"unstored"` // final outputs that are on no storage element yet
	Total    SiteLook   `json:"total"`    // of all sites; see Sum
	Sites    []SiteLook `json:"sites"`
}

// Sum adds the sites up. Delays of all sites have no quantiles.
func (l *Look) Sum() {
	l.Total = SiteLook{}
	for i := range l.Sites {
		l.Total.add(&l.Sites[i])
	}
}

func (s *SiteLook) add(other *SiteLook) {
	s.Pilots += other.Pilots
	s.Slots += other.Slots
	s.Free += other.Free
	s.Running += other.Running
	s.Waiting += other.Waiting
	s.Cache += other.Cache
	s.Used += other.Used
	s.SetBack += other.SetBack
	s.SiteSums.add(&other.SiteSums)
}

func (s *SiteSums) add(other *SiteSums) {
	s.Done += other.Done
	s.Failed += other.Failed
	for i := range s.Reads {
		s.Reads[i] += other.Reads[i]
		s.Bytes[i] += other.Bytes[i]
	}
	s.Evicted += other.Evicted
	s.Requests += other.Requests
	s.Delays += other.Delays
	s.DelaySum += other.DelaySum
}

// SiteLook is one site.
type SiteLook struct {
	Name     string  `json:"name,omitempty"`
	Mode     string  `json:"mode,omitempty"`
	Note     string  `json:"note,omitempty"` // draining, fallen back, without master
	Master   string  `json:"master,omitempty"`
	Pilots   int     `json:"pilots"`
	Slots    int     `json:"slots"`
	Free     int     `json:"free"`
	Running  int     `json:"running"`
	Waiting  int     `json:"waiting"`
	Cache    uint64  `json:"cache"`
	Used     uint64  `json:"used"`
	SetBack  int     `json:"set_back"`
	DelayP50 float64 `json:"delay_p50,omitempty"`
	DelayP99 float64 `json:"delay_p99,omitempty"`
	Unheard  bool    `json:"unheard,omitempty"` // its master
	SiteSums
}

// SiteSums is what a site has done.
type SiteSums struct {
	Done     uint64    `json:"done"`
	Failed   uint64    `json:"failed"`
	Reads    [4]uint64 `json:"reads"` // local, peer, storage element, remote
	Bytes    [4]uint64 `json:"bytes"`
	Evicted  uint64    `json:"evicted"`
	Requests uint64    `json:"requests"`
	Delays   uint64    `json:"delays"`   // inter-task delays, counted
	DelaySum float64   `json:"delaysum"` // seconds
}

// Event is something that has happened. A number counts up from the start of the
// queue.
type Event struct {
	Number   uint64 `json:"n"`
	Time     int64  `json:"t"` // ms since 1970
	Kind     string `json:"kind"`
	Warns    bool   `json:"warns,omitempty"`
	Site     string `json:"site,omitempty"`
	Pilot    string `json:"pilot,omitempty"`
	Node     string `json:"node,omitempty"`
	Workflow string `json:"workflow,omitempty"`
	Task     string `json:"task,omitempty"`
	Text     string `json:"text,omitempty"`
	Quotes   bool   `json:"-"` // the text is for those who look after the site
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
	hidden  string // instead of the id, to those who may not see its task; the same while it runs and after
}

// Out tells when outputs of an attempt were on a storage element: the slot runs the next
// task meanwhile.
type Out struct {
	Site    string `json:"-"`
	Attempt string `json:"id"`
	At      int64  `json:"at"` // ms since 1970
	number  uint64
}

const (
	lookEvery   = time.Second
	keepLooks   = 720     // of Record
	keepBars    = 20_000  // ended
	keepRunning = 100_000 // running
	barsASecond = 100     // to one viewer
	// eventsASecond go to one viewer, who has the newest if there are more.
	eventsASecond = 20
	// Looks for windows of hours: one every coarseEvery, for a day.
	coarseEvery = 5 * time.Minute
	keepCoarse  = 288
)

// live is what the page remembers: looks for charts, and attempts.
type live struct {
	mu      sync.Mutex
	viewers int
	at      time.Time // of current
	current Look
	message []byte // current, as a server-sent event
	err     error
	looks   []Look
	coarse  []Look
	files   FileCount
	bars    []Bar // ended, a ring by number
	outs    []Out // likewise
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
func (l *live) look(now time.Time, fresh time.Duration, take func() (Look, error)) (look Look, message []byte, err error) {
	l.taking.Lock()
	defer l.taking.Unlock()
	if now.Sub(l.at) >= fresh*9/10 || l.err != nil {
		l.current, l.err = take()
		l.current.Sum()
		l.at = now
		if l.err == nil {
			l.message, l.err = sseMessage("look", l.current)
		}
	}
	return l.current, l.message, l.err
}

func (l *live) keep(look Look) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.looks = append(l.looks, look)
	if len(l.looks) > keepLooks {
		l.looks = append(l.looks[:0], l.looks[len(l.looks)-keepLooks:]...)
	}
	if n := len(l.coarse); n == 0 || look.Time-l.coarse[n-1].Time >= coarseEvery.Milliseconds() {
		l.coarse = append(l.coarse, look)
	}
	if len(l.coarse) > keepCoarse {
		l.coarse = append(l.coarse[:0], l.coarse[len(l.coarse)-keepCoarse:]...)
	}
}

// before returns the newest look that is at least so old, or else the oldest one.
func (l *live) before(ago time.Duration) (Look, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.looks) == 0 {
		return Look{}, false
	}
	then := l.looks[len(l.looks)-1].Time - ago.Milliseconds()
	for _, looks := range [][]Look{l.looks, l.coarse} {
		for i := len(looks) - 1; i >= 0; i-- {
			if looks[i].Time <= then {
				return looks[i], true
			}
		}
	}
	return l.coarse[0], true
}

func (l *live) read(reads []task.Read) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range reads {
		l.files.Add(reads[i])
	}
}

func (l *live) hottest(most int) []FileReads {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.files.hottest(most)
}

func (l *live) began(bars []Bar) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, bar := range bars {
		if len(l.running) < keepRunning {
			l.number++
			bar.number = l.number
			bar.hidden = "a" + strconv.FormatUint(l.number, 36)
			l.running[bar.Attempt] = bar
		}
	}
}

func (l *live) ended(bars []Bar) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, bar := range bars {
		l.number++
		bar.number = l.number
		if bar.hidden = l.running[bar.Attempt].hidden; bar.hidden == "" {
			bar.hidden = "a" + strconv.FormatUint(l.number, 36)
		}
		delete(l.running, bar.Attempt)
		l.bars = append(l.bars, bar)
	}
	l.bars = cutRing(l.bars)
}

func (l *live) stored(outs []Out) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, out := range outs {
		l.number++
		out.number = l.number
		l.outs = append(l.outs, out)
	}
	l.outs = cutRing(l.outs)
}

// cutRing leaves the newest of a ring, now and then.
func cutRing[T any](ring []T) []T {
	if len(ring) > keepBars+keepBars/4 {
		return append(ring[:0], ring[len(ring)-keepBars:]...)
	}
	return ring
}

func (l *live) newest() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.number
}

// since returns what has happened at a site after a number: of attempts, and of those whose
// outputs were stored, at most so many, the newest if there are more.
func (l *live) since(site string, after uint64, most int) (bars []Bar, outs []Out, newest uint64) {
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
	for i := len(l.outs) - 1; i >= 0 && l.outs[i].number > after && len(outs) < most; i-- {
		if l.outs[i].Site == site {
			outs = append(outs, l.outs[i])
		}
	}
	return bars, outs, l.number
}

// of is a look without the other sites: charts draw one site, or all together.
func (l Look) of(site string) Look {
	all := l.Sites
	l.Sites = []SiteLook{}
	for i := range all {
		if all[i].Name == site {
			l.Sites = all[i : i+1]
		}
	}
	return l
}

// History is what a viewer gets at first.
type History struct {
	Looks  []Look  `json:"looks"`
	Bars   []Bar   `json:"bars"`
	Outs   []Out   `json:"outs"`
	Events []Event `json:"events"`
	// The stream goes on behind these numbers: of what is above, and of events.
	Newest uint64 `json:"newest"`
	Told   uint64 `json:"told"`
}

const (
	historyBars   = 3_000
	historyEvents = 100
)

func (l *live) history(site string) History {
	h := History{Looks: []Look{}, Bars: []Bar{}, Newest: l.newest()}
	if site != "" {
		bars, outs, _ := l.since(site, 0, historyBars)
		h.Bars, h.Outs = append(h.Bars, bars...), outs // none is an empty list
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	step := 1 + len(l.looks)/240
	for i := (len(l.looks) - 1) % step; i >= 0 && i < len(l.looks); i += step {
		h.Looks = append(h.Looks, l.looks[i].of(site))
	}
	if n := len(l.looks); n > 0 {
		h.Looks[len(h.Looks)-1] = l.looks[n-1] // whole, to be shown at once
	}
	return h
}
