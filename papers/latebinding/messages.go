package latebinding

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/pilotage-grid/pilotage/bench"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

// What 004 says of its runs (section IV); its heartbeats have no period there,
// and a minute was fitted.
const (
	taskTime    = 198 * time.Second // "3.3 minutes"
	roundPeriod = 20 * time.Second
	heartbeats  = time.Minute
)

// scaled is what a time of 004 becomes where its tasks of 3.3 minutes take so long.
func scaled(of, tasks time.Duration) time.Duration {
	return time.Duration(float64(of) * float64(tasks) / float64(taskTime))
}

// message is a kind of message of 004, beside registration and shutdown, which
// are our own Register and Leave.
type message int

const (
	taskDownload   message = iota // III-B: "proceed to download the task"
	taskCompletion                // III-B: "task completion times"
	jobReport                     // III-B: "uploads the resulting job report"
	taskRetrieval                 // IV-A: pre-DHT and centralized
	heartbeat                     // III-B: no longer needed where there is a master
	fileReport                    // IV-A: creation and deletion of files, pre-DHT
	messages
)

func (m message) String() string {
	return [...]string{"task_download", "task_completion", "job_report", "task_retrieval", "heartbeat", "file_report"}[m]
}

// talk is what all pilots of a run send as those of 004 do, beside the product's
// messages, which do the work. They carry nothing: they are calls of the queue's
// health service with a pilot's token, so that the queue serves and counts them
// and nothing in it knows of a second protocol.
type talk struct {
	mode      pb.SiteMode
	heartbeat time.Duration
	sent      [messages]atomic.Uint64
	waiting   atomic.Int64 // for their answer

	mutex  sync.Mutex
	failed error // the first one
}

// Pilot satisfies bench.Extra.
func (t *talk) Pilot(queue *grpc.ClientConn) bench.ExtraPilot {
	return &voice{talk: t, queue: healthpb.NewHealthClient(queue)}
}

// Sent satisfies bench.Extra.
func (t *talk) Sent() (sent, waiting float64) {
	for i := range t.sent {
		sent += float64(t.sent[i].Load())
	}
	return sent, float64(t.waiting.Load())
}

// err is the first message that was not answered.
func (t *talk) err() error {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.failed
}

// byMessage returns the numbers of messages with their names.
func (t *talk) byMessage() map[string]uint64 {
	counts := make(map[string]uint64)
	for i := range t.sent {
		if n := t.sent[i].Load(); n > 0 {
			counts[message(i).String()] = n
		}
	}
	return counts
}

// voice is one pilot's part of a talk.
type voice struct {
	talk  *talk
	queue healthpb.HealthClient
}

// say sends a message so many times and waits for the answers, as 004's pilots
// do before they go on.
func (v *voice) say(what message, times int) {
	for range times {
		v.talk.sent[what].Add(1)
		v.talk.waiting.Add(1)
		// A message is not cut off with the payload that it is about.
		_, err := v.queue.Check(context.Background(), &healthpb.HealthCheckRequest{})
		v.talk.waiting.Add(-1)
		if err != nil {
			v.talk.mutex.Lock()
			if v.talk.failed == nil {
				v.talk.failed = fmt.Errorf("message %s: %w", what, err)
			}
			v.talk.mutex.Unlock()
		}
	}
}

// Assigned satisfies bench.ExtraPilot.
func (v *voice) Assigned() {
	if v.central() {
		v.say(taskRetrieval, 1)
	}
	v.say(taskDownload, 1)
}

// Ended satisfies bench.ExtraPilot.
func (v *voice) Ended(outputs int) {
	v.say(taskCompletion, 1)
	v.say(jobReport, 1)
	v.CacheChanged(outputs)
}

// CacheChanged satisfies bench.ExtraPilot.
func (v *voice) CacheChanged(files int) {
	if v.talk.mode == pb.SiteMode_SITE_MODE_ISOLATED {
		v.say(fileReport, files)
	}
}

// Beat tells that the pilot is alive; where there is a master nobody needs to
// hear it.
func (v *voice) Beat(ctx context.Context) {
	if !v.central() || v.talk.heartbeat <= 0 {
		return
	}
	ticker := time.NewTicker(v.talk.heartbeat)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			v.say(heartbeat, 1)
		case <-ctx.Done():
			return
		}
	}
}

func (v *voice) central() bool {
	return v.talk.mode == pb.SiteMode_SITE_MODE_CENTRALIZED || v.talk.mode == pb.SiteMode_SITE_MODE_ISOLATED
}
