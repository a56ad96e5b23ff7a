package staging

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	"github.com/pilotage-grid/pilotage/task"
)

// inputs are those of an attempt.
type inputs struct {
	worker.StageIn
	waiters []uint64
	pinned  []task.FileKey
	missing int
	reads   []task.Read
	errs    cache.FetchErrors
	over    bool // nothing is waited for any more
}

// StageIn brings the inputs of an attempt here and pins them until Release. Then is
// told StagedIn or StageFailed, unless the attempt is discarded before.
func (f *Files) StageIn(a worker.StageIn, then func(message.Event)) {
	in := &inputs{StageIn: a, missing: len(a.Files), reads: make([]task.Read, len(a.Files))}
	f.attempts[a.Attempt] = in
	staged := func() {
		if in.over {
			return
		}
		in.over = true
		f.later(func() {
			if f.attempts[a.Attempt] == in {
				then(f.staged(in))
			}
		})
	}
	if len(a.Files) == 0 {
		staged()
	}
	for i, file := range a.Files {
		waiter := f.want(file, func(source task.Source, err *cache.FetchError) {
			if in.missing--; err != nil {
				err := *err
				err.File = file
				if in.errs = append(in.errs, &err); len(in.errs) == 1 && in.missing > 0 && !f.config.Patient {
					f.config.Clock.After(cache.FailureGrace, staged)
				}
			} else if !in.over {
				agree(f.Cached.Pin(file.Key()))
				in.pinned = append(in.pinned, file.Key())
			}
			in.reads[i] = task.Read{
				LFN: file.LFN, Size: file.Size, Digest: file.Digest, Source: source, Intermediate: !file.Producer.IsZero(), Producer: file.Producer,
			}
			if in.missing == 0 {
				staged()
			}
		})
		in.waiters = append(in.waiters, waiter)
	}
}

func (f *Files) staged(in *inputs) message.Event {
	if len(in.errs) == 0 {
		return worker.StagedIn{Attempt: in.Attempt, Reads: in.reads}
	}
	f.letGo(in)
	slices.SortFunc(in.errs, func(a, b *cache.FetchError) int { return strings.Compare(string(a.File.LFN), string(b.File.LFN)) })
	return worker.StageFailed{
		Attempt: in.Attempt, Failure: in.errs.Kind(), Lost: in.errs.Lost(), NoRoom: in.errs.NoRoom(), Reason: in.errs.Error(),
	}
}

// letGo ends pins and wishes.
func (f *Files) letGo(in *inputs) {
	in.over = true
	for _, waiter := range in.waiters {
		if f.waiting[waiter] != nil && !f.config.Patient {
			delete(f.waiting, waiter)
			f.Tell(cache.Cancelled{Waiter: waiter})
		}
	}
	for _, key := range in.pinned {
		agree(f.Cached.Unpin(key))
	}
	in.pinned = nil
}

// Release ends the pins of an attempt's inputs.
func (f *Files) Release(id task.AttemptID) {
	if in := f.attempts[id]; in != nil {
		f.letGo(in)
	}
}

// Discard forgets an attempt.
func (f *Files) Discard(id task.AttemptID) {
	f.Release(id)
	delete(f.attempts, id)
}

// Publish takes the outputs of a payload into the cache, where they stay until LetGo.
func (f *Files) Publish(a worker.Publish, made func(task.LFN) (task.Bytes, task.Digest), then func(worker.Published)) {
	published := worker.Published{Attempt: a.Attempt, Outcome: a.Outcome}
	var keys []task.FileKey
	for _, output := range a.Assignment.Task.Outputs {
		size, digest := made(output.LFN)
		key := task.KeyOf(output.LFN, digest)
		evicted, err := f.Cached.Insert(key, size, true)
		f.evicted(evicted)
		if err != nil {
			published.Failure = fmt.Sprintf("output %s cannot be kept: %v", output.LFN.Local(), err)
			for _, id := range published.Outputs { // nobody needs what a failed attempt has made
				f.LetGo(task.OutputID{Attempt: a.Attempt, LFN: id.LFN})
			}
			break
		}
		f.learn(output.LFN, key)
		f.soles[task.OutputID{Attempt: a.Attempt, LFN: output.LFN}] = key
		published.Outputs = append(published.Outputs, task.Produced{LFN: output.LFN, Size: size, Digest: digest})
		keys = append(keys, key)
	}
	f.later(func() {
		if len(keys) > 0 {
			f.config.Changed(f.all(keys))
		}
		then(published)
		f.Discard(a.Attempt)
	})
}
