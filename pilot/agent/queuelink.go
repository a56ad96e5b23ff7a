package agent

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/pilotage-grid/pilotage/pilot/master"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	"github.com/pilotage-grid/pilotage/task"
)

// syncTime bounds a Sync beyond the time it may be parked.
const syncTime = 15 * time.Second

// settingsHeard is told settings of the site that came from the queue, and when
// they were asked for. It may be called from any goroutine.
type settingsHeard func(asked time.Time, settings task.SiteSettings)

// queueLink carries what the two roles and the queue tell each other.
type queueLink struct {
	*shell

	queue   Queue
	fetcher Fetcher
	settle  settingsHeard
	relays  relays
	silence silence // of the queue towards this master; the loop owns it
	unknown bool    // that outcomes were refused as unknown was said; the loop owns it
}

// sync calls the queue for a site's master; then takes the answer in the loop.
func (q *queueLink) sync(act master.CallSync, then func(master.SyncAnswered)) {
	q.beside(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, act.Sync.Hold+syncTime)
		defer cancel()
		asked := time.Now()
		reply, err := q.queue.Sync(ctx, act.Sync)
		q.answered("sync failed", asked, master.SyncAnswered{N: act.N, Reply: reply}, err, func(answer master.SyncAnswered) {
			if !answer.Stale { // a refusal is an answer
				q.silence.note(q.log, err, time.Now())
			}
			then(answer)
		})
	})
}

// pull calls the queue for this pilot alone.
func (q *queueLink) pull(n uint64, pull task.Pull, then func(master.SyncAnswered)) {
	q.beside(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, pull.Hold+syncTime)
		defer cancel()
		asked := time.Now()
		reply, err := q.queue.Pull(ctx, pull)
		q.answered("pull failed", asked, master.SyncAnswered{
			N: n, Reply: reply.SyncReply, CacheVersion: reply.CacheVersion, Deposed: reply.Deposed, Named: pull.Term,
		}, err, then)
	})
}

func (q *queueLink) answered(failed string, asked time.Time, answer master.SyncAnswered, err error, then func(master.SyncAnswered)) {
	if err != nil {
		answer.Err, answer.Stale = err.Error(), errors.Is(err, ErrStale)
		q.heed(err)
		q.log.Debug(failed, "error", err)
	} else {
		q.settle(asked, answer.Reply.Settings)
		q.sendWanted(answer.Reply.Wanted)
	}
	q.loop.Post(func() {
		q.noteVerdicts(answer.Reply.Acks)
		then(answer)
	})
}

// deliver hands outcomes over while the site has no master.
func (q *queueLink) deliver(act worker.DeliverToQueue, events workerEvents) {
	q.beside(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, syncTime)
		defer cancel()
		acks, err := q.queue.Deliver(ctx, act.Outcomes, act.Stored)
		if err != nil {
			q.heed(err)
			q.log.Warn("outcomes stay here until the site has a master or the queue answers", "outcomes", len(act.Outcomes), "error", err)
			return
		}
		delivered := worker.DeliveredToQueue{Acks: acks}
		for _, stored := range act.Stored {
			delivered.Stored = append(delivered.Stored, stored.Output())
		}
		events(func() []message.Event {
			q.noteVerdicts(acks)
			return []message.Event{delivered}
		})
	})
}

// noteVerdicts says once that the queue knows nothing of attempts of which it was
// told outcomes.
func (q *queueLink) noteVerdicts(acks []task.Ack) {
	unknown := slices.IndexFunc(acks, func(ack task.Ack) bool { return ack.Verdict == task.AckUnknown })
	if unknown < 0 || q.unknown {
		return
	}
	q.unknown = true
	q.log.Warn("the queue takes no outcomes of attempts that it knows nothing of, as after going back to a backup; what it still wants is run again",
		"first", acks[unknown].Attempt)
}

// sendWanted sends cached files to the queue: this pilot takes from others what
// it has not itself.
func (q *queueLink) sendWanted(wanted []task.WantedFile) {
	for _, w := range wanted {
		if !q.relays.begin(w.ID) {
			continue
		}
		q.beside(func(ctx context.Context) {
			defer q.relays.end(w.ID)
			if err := q.sendOne(ctx, w); err != nil {
				q.log.Warn("a file that somebody waits for could not be sent", "file", w.File.LFN, "error", err)
			} else {
				q.log.Info("a file was sent to somebody who waits for it at the queue", "file", w.File.LFN)
			}
		})
	}
}

func (q *queueLink) sendOne(ctx context.Context, w task.WantedFile) error {
	staged, err := q.fetcher.Stage(ctx, []task.File{w.File})
	if err != nil {
		return q.queue.Send(ctx, w.ID, nil, err.Error())
	}
	defer staged[0].Release()
	content, err := os.Open(staged[0].Path)
	if err != nil {
		return q.queue.Send(ctx, w.ID, nil, err.Error())
	}
	defer func() { _ = content.Close() }()
	return q.queue.Send(ctx, w.ID, content, "")
}

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

// silenceTold is how long the queue may be away before a master says so: a
// restart of the queue takes less.
const silenceTold = 10 * time.Second

// silence tells once when the queue has been away for a while, and once when
// it is back. It is not safe for concurrent use.
type silence struct {
	since time.Time // of the first call that failed; zero while the queue answers
	told  bool
}

// note takes in how a Sync ended.
func (s *silence) note(log *slog.Logger, err error, now time.Time) {
	switch {
	case err == nil:
		if s.told {
			log.Info("the queue answers again", "away", now.Sub(s.since).Round(time.Second))
		}
		s.since, s.told = time.Time{}, false
	case s.since.IsZero():
		s.since = now
	case !s.told && now.Sub(s.since) >= silenceTold:
		s.told = true
		log.Warn("the queue does not answer; the site goes on with the tasks that it holds, and outcomes are kept",
			"away", now.Sub(s.since).Round(time.Second), "error", err)
	}
}
