package staging

import (
	"errors"
	"time"

	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/task"
)

// beat is how often a transfer shows that it moves.
const beat = 2 * time.Second

// Transfer is one under way. Whoever moves the bytes calls End.
type Transfer struct {
	File task.File
	Stop func() // ends the moving of bytes, if set

	files    *Files
	id       uint64
	nextBeat func() // cancels it
}

// Live tells whether it is still under way.
func (t *Transfer) Live() bool { return !t.files.closed && t.files.transfers[t.id] == t }

// want asks for a file; then is told once.
func (f *Files) want(file task.File, then func(task.Source, *cache.FetchError)) (waiter uint64) {
	f.waiter++
	waiter = f.waiter
	f.waiting[waiter] = then
	f.learn(file.LFN, file.Key())
	f.Tell(cache.Want{File: file, Waiter: waiter, Cached: f.Cached.Contains(file.Key()), Remote: f.config.Remote()})
	return waiter
}

// Tell tells the planner something and does what it wants.
func (f *Files) Tell(event cache.PlanEvent) {
	f.events = append(f.events, event)
	if f.closed || len(f.events) > 1 {
		return // whoever is at it goes on
	}
	for len(f.events) > 0 {
		for _, action := range f.planner.Step(f.config.Clock.Now(), f.events[0]) {
			f.perform(action)
		}
		f.events = f.events[1:]
	}
	f.alarm.Set(f.config.Clock, f.planner.Deadline(), func() { f.Tell(cache.Tick{}) })
}

func (f *Files) perform(action cache.PlanAction) {
	self := f.config.Self
	switch a := action.(type) {
	case cache.Locate:
		f.config.Peers.Locate(a)
	case cache.AskHome:
		f.config.Peers.TellHome(cache.Ask{Key: a.Key, From: self.Peer, Tried: a.Tried, Number: a.Ask})
	case cache.RenewGrant:
		f.config.Peers.TellHome(cache.Renew{Key: a.Key, From: self.Peer})
	case cache.FinishGrant:
		f.config.Peers.TellHome(cache.Finish{Key: a.Key, From: self, End: a.End})
	case cache.TransferFromPeers:
		f.begin(a.Transfer, a.File, func(t *Transfer) { f.config.Peers.Read(t, a.Holders) })
	case cache.TransferFromSE:
		f.begin(a.Transfer, a.File, func(t *Transfer) { f.config.Storage.Read(t, a.Replica) })
	case cache.Abandon:
		f.abandon(a.Key)
	case cache.BadCopy:
		if !a.File.Producer.IsZero() {
			f.config.BadCopy(task.LostFile{LFN: a.File.LFN, Digest: a.File.Digest, URL: a.Replica.URL, Reason: a.Reason})
		}
	case cache.Ready:
		f.answer(a.Waiter, a.Source, nil)
	case cache.Failed:
		f.answer(a.Waiter, 0, a.Err)
	}
}

func (f *Files) answer(waiter uint64, source task.Source, err *cache.FetchError) {
	then := f.waiting[waiter]
	delete(f.waiting, waiter)
	if then != nil {
		then(source, err)
	}
}

// begin reserves room for a transfer and lets it move.
func (f *Files) begin(id uint64, file task.File, move func(*Transfer)) {
	key := file.Key()
	evicted, err := f.Cached.Reserve(key, file.Size)
	if errors.Is(err, cache.ErrReserved) { // an abandoned transfer of it is still ending
		f.Cached.Cancel(key)
		evicted, err = f.Cached.Reserve(key, file.Size)
	}
	f.evicted(evicted)
	switch {
	case errors.Is(err, cache.ErrPresent): // it came otherwise meanwhile
		f.later(func() { f.Tell(cache.TransferDone{Transfer: id, Arrived: true}) })
		return
	case err != nil:
		f.later(func() { f.Tell(cache.TransferDone{Transfer: id, Local: err}) })
		return
	}
	t := &Transfer{File: file, files: f, id: id}
	f.transfers[id] = t
	t.progress()
	move(t)
}

// progress shows now and then that a transfer moves.
func (t *Transfer) progress() {
	t.nextBeat = t.files.config.Clock.After(beat, func() {
		t.files.Tell(cache.Progress{Transfer: t.id})
		if t.Live() {
			t.progress()
		}
	})
}

// End finishes a transfer, once.
func (t *Transfer) End(done cache.TransferDone) {
	f := t.files
	if !t.Live() {
		return
	}
	delete(f.transfers, t.id)
	t.nextBeat()
	done.Transfer = t.id
	key := t.File.Key()
	if done.Arrived && !f.Cached.Contains(key) {
		agree(f.Cached.Commit(key, key, t.File.Size, false))
		f.learn(t.File.LFN, key)
		f.config.Changed(f.all([]task.FileKey{key}))
	} else {
		f.Cached.Cancel(key)
	}
	f.Tell(done)
}

func (f *Files) abandon(key task.FileKey) {
	for _, t := range f.transfers {
		if t.File.Key() == key {
			t.halt()
			f.later(func() { t.End(cache.TransferDone{}) })
		}
	}
}

func (t *Transfer) halt() {
	t.nextBeat()
	if t.Stop != nil {
		t.Stop()
	}
}
