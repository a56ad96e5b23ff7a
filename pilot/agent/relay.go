package agent

import (
	"context"
	"os"
	"sync"

	"github.com/pilotage-grid/pilotage/task"
)

// relays are the files that this pilot sends to whoever waits for them at the
// queue.
type relays struct {
	mutex sync.Mutex
	under map[string]bool
}

// begin tells whether a wait is not served yet.
func (r *relays) begin(id string) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.under[id] {
		return false
	}
	if r.under == nil {
		r.under = make(map[string]bool)
	}
	r.under[id] = true
	return true
}

func (r *relays) end(id string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	delete(r.under, id)
}

// sendWanted sends cached files to the queue: this pilot takes from others what
// it has not itself.
func (a *Agent) sendWanted(wanted []task.WantedFile) {
	for _, w := range wanted {
		if !a.relays.begin(w.ID) {
			continue
		}
		a.group.Go(func() error {
			defer a.relays.end(w.ID)
			if err := a.sendOne(a.context, w); err != nil {
				a.log.Warn("a file that somebody waits for could not be sent", "file", w.File.LFN, "error", err)
			} else {
				a.log.Info("a file was sent to somebody who waits for it at the queue", "file", w.File.LFN)
			}
			return nil
		})
	}
}

func (a *Agent) sendOne(ctx context.Context, w task.WantedFile) error {
	staged, err := a.fetcher.Stage(ctx, []task.File{w.File})
	if err != nil {
		return a.queue.Send(ctx, w.ID, nil, err.Error())
	}
	defer staged[0].Release()
	content, err := os.Open(staged[0].Path)
	if err != nil {
		return a.queue.Send(ctx, w.ID, nil, err.Error())
	}
	defer func() { _ = content.Close() }()
	return a.queue.Send(ctx, w.ID, content, "")
}
