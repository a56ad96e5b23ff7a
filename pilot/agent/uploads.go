package agent

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	"github.com/pilotage-grid/pilotage/task"
)

// uploader copies outputs to the site's storage element in the background,
// a few at a time, and tries again until the pilot ends.
type uploader struct {
	*shell

	self     task.PilotID
	cache    Cache
	store    Uploads
	settings *siteSettings
	worker   workerEvents

	mutex   sync.Mutex
	waiting []upload
	open    int           // uploads that have not ended: what is tried again counts
	wake    chan struct{} // holds a signal for each worker
	looks   chan struct{} // holds a place for each look at the storage element
	trouble trouble
}

// trouble is how often failed uploads are spoken of: all may fail alike, of many
// files and again and again, so that is said once, and ever more rarely.
type trouble struct {
	failed int           // since it was spoken of
	pause  time.Duration // until the next time
	next   time.Time
	open   bool // the last word was that uploads fail
}

const (
	troublePause   = time.Minute
	longestTrouble = time.Hour
)

// add notes a failure, and returns how many there were if it is time to speak.
func (t *trouble) add(now time.Time) (failed int) {
	if t.failed++; now.Before(t.next) {
		return 0
	}
	if now.Sub(t.next) > 2*t.pause { // of long ago
		t.pause = 0
	}
	t.pause = min(max(2*t.pause, troublePause), longestTrouble)
	failed, t.failed, t.next, t.open = t.failed, 0, now.Add(t.pause), true
	return failed
}

// over notes a success and tells whether it ends what was spoken of.
func (t *trouble) over() (was bool) {
	was, t.open = t.open, false
	return was
}

type upload struct {
	output message.Output
	tries  int
	sought bool // it is kept no more, and looked for: the answer to an earlier try may have been lost
}

// perhapsThere tells whether an upload is perhaps not the first to its name: its
// answer was lost, or another pilot or an earlier run has the same output.
func (u upload) perhapsThere(self task.PilotID) bool {
	made := u.output.Attempt
	return u.tries > 0 || made.Pilot != self || task.Qualify(made.Task.Workflow(), u.output.LFN.Local()) != u.output.LFN
}

const uploadsAtOnce = 2

func newUploader(s *shell, self task.PilotID, cache Cache, store Uploads, settings *siteSettings, events workerEvents) *uploader {
	return &uploader{
		shell: s, self: self, cache: cache, store: store, settings: settings, worker: events,
		wake: make(chan struct{}, uploadsAtOnce), looks: make(chan struct{}, uploadsAtOnce),
	}
}

// put queues an output. It never waits.
func (u *uploader) put(item upload) {
	u.mutex.Lock()
	if item.tries == 0 {
		u.open++
	}
	u.waiting = append(u.waiting, item)
	u.mutex.Unlock()
	select {
	case u.wake <- struct{}{}:
	default: // every worker looks again before it sleeps
	}
}

func (u *uploader) end() {
	u.mutex.Lock()
	u.open--
	u.mutex.Unlock()
}

// pending tells whether anything may come to a storage element of which nobody has
// told yet.
func (u *uploader) pending() bool {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	return u.open > 0
}

// take returns the output that has waited longest; false if there is none.
func (u *uploader) take() (upload, bool) {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	if len(u.waiting) == 0 {
		u.waiting = nil
		return upload{}, false
	}
	item := u.waiting[0]
	u.waiting = u.waiting[1:]
	return item, true
}

// run uploads until ctx ends.
func (u *uploader) run(ctx context.Context) error {
	done := make(chan struct{}, uploadsAtOnce)
	for range uploadsAtOnce {
		go func() {
			defer func() { done <- struct{}{} }()
			for {
				select {
				case <-u.wake:
				case <-ctx.Done():
					return
				}
				for item, any := u.take(); any && ctx.Err() == nil; item, any = u.take() {
					if u.attempt(ctx, item) {
						u.end()
					}
				}
			}
		}()
	}
	for range uploadsAtOnce {
		<-done
	}
	return nil
}

// attempt uploads one file, or puts it back for later. One that is not kept any more is
// let be: it has left the cache, where it may be again as any other file is, or nobody
// wants it stored. If an earlier try has stored it all the same, the queue hears of that.
// It tells whether the upload has ended.
func (u *uploader) attempt(ctx context.Context, item upload) (ended bool) {
	settings := u.settings.get()
	if settings.SE == "" {
		return true // a site without storage element keeps its outputs in caches
	}
	id := item.output.ID()
	if !item.sought && !u.keeps(item.output) {
		u.worker.tell(worker.NotUploaded{Output: id})
		if item.tries == 0 {
			return true
		}
		item.sought = true
	}
	url, err := u.bring(ctx, settings.SE, item)
	switch {
	case ctx.Err() != nil && err != nil:
		return false
	case err != nil:
		u.tryAgain(item, settings.SE, err)
		return false
	case url != "":
		u.mutex.Lock()
		again := u.trouble.over()
		u.mutex.Unlock()
		if again {
			u.log.Info("outputs are uploaded again", "storage", settings.SE)
		}
		stored := task.Stored{LFN: id.LFN, Attempt: id.Attempt, URL: url, Size: item.output.Size, Digest: item.output.Digest}
		u.worker.tell(worker.Uploaded{Stored: []task.Stored{stored}})
	}
	return true
}

// keeps tells whether the cache keeps an output until it is stored. The worker knows
// whether it has let go of it.
func (u *uploader) keeps(output message.Output) bool {
	entry, cached := u.cache.Lookup(task.KeyOf("", output.Digest))
	if cached && slices.Contains(entry.Outputs, output.ID()) {
		return true
	}
	u.log.Info("an output is kept no more: it is not uploaded from here", "file", output.LFN, "attempt", output.Attempt, "cached", cached)
	return false
}

// bring stores an output, or looks for one that is kept no more: "" if it is not there.
func (u *uploader) bring(ctx context.Context, element string, item upload) (url string, err error) {
	output := item.output
	if item.sought {
		return u.find(ctx, element, output.File(""))
	}
	url, err = u.store.Put(ctx, element, task.StorageName(output.Attempt, output.LFN), task.KeyOf("", output.Digest), item.perhapsThere(u.self))
	if err != nil {
		return "", fmt.Errorf("upload: %w", err)
	}
	return url, nil
}

// tryAgain puts an output back for later, after a failure.
func (u *uploader) tryAgain(item upload, element string, err error) {
	id := item.output.ID()
	u.worker.tell(worker.UploadFailed{Output: id})
	item.tries++
	pause := rand.N(worker.UploadPause(item.tries))
	u.mutex.Lock()
	failed := u.trouble.add(time.Now())
	u.mutex.Unlock()
	if failed > 0 {
		u.log.Warn("outputs cannot be uploaded and are tried again; of further ones there is a word now and then",
			"storage", element, "failed", failed, "file", id.LFN, "error", err)
	}
	u.log.Debug("an output could not be uploaded, trying again", "file", id.LFN, "tries", item.tries, "pause", pause, "error", err)
	u.beside(func(ctx context.Context) {
		select {
		case <-time.After(pause):
			u.put(item)
		case <-ctx.Done():
		}
	})
}

// find looks for an output at its place on a storage element, if there is one, and tells
// why that cannot be said.
func (u *uploader) find(ctx context.Context, element string, file task.File) (string, error) {
	if element == "" {
		return "", nil
	}
	select {
	case u.looks <- struct{}{}:
		defer func() { <-u.looks }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	return u.store.Find(ctx, element, task.StorageName(file.Producer, file.LFN), file.Size, file.Digest)
}
