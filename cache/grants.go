package cache

import (
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// GrantsConfig bounds a Grants. Zero fields mean the defaults.
type GrantsConfig struct {
	// Grant is how long a read is granted without progress: 10 s, long for a
	// storage element that is alive, short for those who wait.
	Grant time.Duration
	// Remember is how long finished holders are pointed to: 2 min, by when the
	// locations of the overlay know them.
	Remember time.Duration
	// MaxRemembered is how many files with finished holders are remembered:
	// 10,000, a few MB.
	MaxRemembered int
	// GiveUpAfter is after how many pilots in a row could not read a file those that
	// wait are told so: 3. One after the other would each wait for a dead element. One
	// pilot that fails again and again says nothing to others: its node may be at fault.
	GiveUpAfter int
}

func (c GrantsConfig) withDefaults() GrantsConfig {
	setDefault(&c.Grant, 10*time.Second)
	setDefault(&c.Remember, 2*time.Minute)
	setDefault(&c.MaxRemembered, 10_000)
	setDefault(&c.GiveUpAfter, 3)
	return c
}

func setDefault[T time.Duration | int | task.Bytes](value *T, standard T) {
	if *value <= 0 {
		*value = standard
	}
}

// maxHolders is how many finished holders of one file are remembered.
const maxHolders = 8

// Grants is the home's side of "one storage element read per file and site
// while somebody is already reading it". For each file it
// grants the read to one pilot at a time and keeps the others in a queue,
// until it can point them to one that has finished. It is an economy, not a
// lock: who gets no answer reads anyway. Not safe for concurrent use.
type Grants struct {
	config GrantsConfig
	files  map[task.FileKey]*grantedFile
	// remembered lists files without reader and queue, the first to forget first.
	remembered []remembered
}

type grantedFile struct {
	reader  task.PeerID // "" for nobody
	until   time.Time   // the reader's grant
	queue   []asker
	holders []Holder      // last finished first
	failed  []task.PeerID // in a row, each once
	keep    time.Time
}

// asker is a pilot that waits, and its latest question.
type asker struct {
	peer   task.PeerID
	number uint64
}

func (a asker) answer(key task.FileKey, verdict Verdict, holders []Holder) Answer {
	return Answer{To: a.peer, Key: key, Number: a.number, Verdict: verdict, Holders: slices.Clone(holders)}
}

type remembered struct {
	key   task.FileKey
	until time.Time
}

// NewGrants returns a Grants that knows nothing yet.
func NewGrants(config GrantsConfig) *Grants {
	return &Grants{config: config.withDefaults(), files: map[task.FileKey]*grantedFile{}}
}

// Deadline is when the next Tick is due; zero for never.
func (g *Grants) Deadline() time.Time {
	var first time.Time
	for _, f := range g.files {
		if f.reader != "" && (first.IsZero() || f.until.Before(first)) {
			first = f.until
		}
	}
	if len(g.remembered) > 0 && (first.IsZero() || g.remembered[0].until.Before(first)) {
		first = g.remembered[0].until
	}
	return first
}

// Step takes in an event and returns the answers to send, in order.
func (g *Grants) Step(now time.Time, event GrantEvent) []GrantAction {
	var out []GrantAction
	switch e := event.(type) {
	case Ask:
		out = g.ask(now, e)
	case Renew:
		if f := g.files[e.Key]; f != nil && f.reader == e.From {
			f.until = now.Add(g.config.Grant)
		}
	case Finish:
		out = g.finish(now, e)
	case PeerGone:
		out = g.gone(now, e.Peer)
	case Tick:
		out = g.tick(now)
	}
	return out
}

func (g *Grants) ask(now time.Time, e Ask) []GrantAction {
	f := g.files[e.Key]
	if f == nil {
		f = &grantedFile{}
		g.files[e.Key] = f
	}
	asking := asker{peer: e.From, number: e.Number}
	if f.reader == e.From {
		return []GrantAction{g.grant(now, e.Key, f, asking)}
	}
	f.holders = slices.DeleteFunc(f.holders, func(h Holder) bool { return h.Peer == e.From })
	if able := without(f.holders, e.Tried); len(able) > 0 {
		f.leaveQueue(e.From)
		return []GrantAction{asking.answer(e.Key, PointedTo, able)}
	}
	if len(f.failed) >= g.config.GiveUpAfter && !now.Before(f.keep) {
		f.failed = nil
	}
	if len(f.failed) >= g.config.GiveUpAfter && f.reader == "" {
		return []GrantAction{asking.answer(e.Key, GivenUp, nil)}
	}
	if f.reader == "" {
		return []GrantAction{g.grant(now, e.Key, f, asking)}
	}
	if i := slices.IndexFunc(f.queue, func(a asker) bool { return a.peer == e.From }); i >= 0 {
		f.queue[i] = asking
	} else {
		f.queue = append(f.queue, asking)
	}
	return []GrantAction{asking.answer(e.Key, WaitFor, nil)}
}

func (g *Grants) grant(now time.Time, key task.FileKey, f *grantedFile, to asker) GrantAction {
	f.leaveQueue(to.peer)
	f.reader, f.until = to.peer, now.Add(g.config.Grant)
	return to.answer(key, Granted, nil)
}

func (g *Grants) finish(now time.Time, e Finish) []GrantAction {
	f := g.files[e.Key]
	if f == nil {
		if e.End != Arrived {
			return nil
		}
		f = &grantedFile{}
		g.files[e.Key] = f
	}
	f.leaveQueue(e.From.Peer)
	wasReader := f.reader == e.From.Peer
	if wasReader {
		f.reader = ""
	}
	if e.End == Arrived {
		// Also when the grant had run out: the file is there all the same.
		f.failed = nil
		f.holders = slices.DeleteFunc(f.holders, func(h Holder) bool { return h.Peer == e.From.Peer })
		f.holders = slices.Insert(f.holders, 0, e.From)
		f.holders = f.holders[:min(len(f.holders), maxHolders)]
		return g.answerAll(now, e.Key, f, PointedTo, f.holders)
	}
	if !wasReader || e.End == GivenBack {
		return g.passOn(now, e.Key, f)
	}
	if !slices.Contains(f.failed, e.From.Peer) {
		f.failed = append(f.failed, e.From.Peer)
	}
	if len(f.failed) >= g.config.GiveUpAfter {
		return g.answerAll(now, e.Key, f, GivenUp, nil)
	}
	return g.passOn(now, e.Key, f)
}

// answerAll tells everybody who waits how the read has ended. For the time of one
// grant newcomers are told the same.
func (g *Grants) answerAll(now time.Time, key task.FileKey, f *grantedFile, verdict Verdict, holders []Holder) []GrantAction {
	var out []GrantAction
	for _, waiting := range f.queue {
		out = append(out, waiting.answer(key, verdict, holders))
	}
	f.queue = nil
	g.remember(now, key, f)
	return out
}

// passOn grants the read to the first who waits, if nobody reads.
func (g *Grants) passOn(now time.Time, key task.FileKey, f *grantedFile) []GrantAction {
	if f.reader != "" {
		return nil
	}
	if len(f.queue) > 0 {
		return []GrantAction{g.grant(now, key, f, f.queue[0])}
	}
	g.remember(now, key, f)
	return nil
}

// remember keeps what is known of a file for a while after the last read.
func (g *Grants) remember(now time.Time, key task.FileKey, f *grantedFile) {
	if f.reader != "" {
		return
	}
	if len(f.holders) == 0 && len(f.failed) == 0 {
		delete(g.files, key)
		return
	}
	span := g.config.Remember
	if len(f.holders) == 0 {
		span = g.config.Grant
	}
	f.keep = now.Add(span)
	g.remembered = append(g.remembered, remembered{key: key, until: f.keep})
	for len(g.remembered) > g.config.MaxRemembered {
		g.forgetFirst()
	}
}

// forgetFirst ends the oldest memory, unless a younger one of the same file
// stands or somebody reads it.
func (g *Grants) forgetFirst() {
	first := g.remembered[0]
	g.remembered = g.remembered[1:]
	f := g.files[first.key]
	if f == nil || !f.keep.Equal(first.until) {
		return
	}
	f.holders, f.failed = nil, nil
	if f.reader == "" {
		delete(g.files, first.key)
	}
}

func (g *Grants) gone(now time.Time, peer task.PeerID) []GrantAction {
	var out []GrantAction
	for _, key := range sortedFileKeys(g.files) {
		f := g.files[key]
		f.leaveQueue(peer)
		f.holders = slices.DeleteFunc(f.holders, func(h Holder) bool { return h.Peer == peer })
		if f.reader == peer {
			f.reader = ""
			out = append(out, g.passOn(now, key, f)...)
		}
	}
	return out
}

func (g *Grants) tick(now time.Time) []GrantAction {
	var out []GrantAction
	for _, key := range sortedFileKeys(g.files) {
		f := g.files[key]
		if f.reader != "" && !now.Before(f.until) {
			f.reader = ""
			out = append(out, g.passOn(now, key, f)...)
		}
	}
	for len(g.remembered) > 0 && !now.Before(g.remembered[0].until) {
		g.forgetFirst()
	}
	return out
}

func (f *grantedFile) leaveQueue(peer task.PeerID) {
	f.queue = slices.DeleteFunc(f.queue, func(a asker) bool { return a.peer == peer })
}

func without(holders []Holder, peers []task.PeerID) []Holder {
	var rest []Holder
	for _, h := range holders {
		if !slices.Contains(peers, h.Peer) {
			rest = append(rest, h)
		}
	}
	return rest
}

func sortedFileKeys[V any](files map[task.FileKey]V) []task.FileKey {
	keys := make([]task.FileKey, 0, len(files))
	for key := range files {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
