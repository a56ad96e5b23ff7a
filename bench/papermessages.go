package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

// Protocol is which messages pilots send to the queue.
type Protocol string

// The protocols.
const (
	Ours Protocol = "ours"
	// AsInPaper adds to ours, which do the work, every message that 004's text
	// names and that we have no need of. They carry nothing: they are calls of
	// the queue's health service with a pilot's token, so that the queue serves
	// and counts them and nothing in it knows of a second protocol.
	AsInPaper Protocol = "paper"
)

// What 004 says of its runs (section IV); its heartbeats have no period there,
// and a minute is ours.
const (
	paperTaskTime    = 198 * time.Second // "3.3 minutes"
	paperRoundPeriod = 20 * time.Second
	paperHeartbeat   = time.Minute
)

// PaperTime is what a time of 004 becomes where its tasks of 3.3 minutes take
// taskTime.
func PaperTime(of, taskTime time.Duration) time.Duration {
	return time.Duration(float64(of) * float64(taskTime) / float64(paperTaskTime))
}

// PaperRounds is 004's period of task lists for tasks of such a time.
func PaperRounds(taskTime time.Duration) time.Duration { return PaperTime(paperRoundPeriod, taskTime) }

// paperMessage is a kind of message of 004, beside registration and shutdown,
// which are our own Register and Leave.
type paperMessage int

const (
	taskDownload   paperMessage = iota // III-B: "proceed to download the task"
	taskCompletion                     // III-B: "task completion times"
	jobReport                          // III-B: "uploads the resulting job report"
	taskRetrieval                      // IV-A: pre-DHT and centralized
	heartbeat                          // III-B: no longer needed where there is a master
	fileReport                         // IV-A: creation and deletion of files, pre-DHT
	paperMessages
)

func (m paperMessage) String() string {
	return [...]string{"task_download", "task_completion", "job_report", "task_retrieval", "heartbeat", "file_report"}[m]
}

// paperTalk is what all pilots of a run send as those of 004 do.
type paperTalk struct {
	mode      pb.SiteMode
	heartbeat time.Duration
	conns     []*grpc.ClientConn
	sent      [paperMessages]atomic.Uint64
	waiting   atomic.Int64 // for their answer

	mutex  sync.Mutex
	failed error // the first one
}

// talkAsInPaper opens a connection for each site; nil with our own protocol.
func (o Overlay) talkAsInPaper(q *queueProcess) (*paperTalk, error) {
	if o.Protocol != AsInPaper {
		return nil, nil
	}
	t := &paperTalk{mode: o.Mode, heartbeat: PaperTime(paperHeartbeat, o.TaskTime)}
	for i := range o.Sites {
		access, err := q.access("pilot-" + overlaySite(i))
		if err != nil {
			return nil, errors.Join(err, t.close())
		}
		conn, err := o.Connect(access)
		if err != nil {
			return nil, errors.Join(err, t.close())
		}
		t.conns = append(t.conns, conn)
	}
	return t, nil
}

// close tells of the first message that was not answered.
func (t *paperTalk) close() error {
	if t == nil {
		return nil
	}
	err := t.failed
	for _, conn := range t.conns {
		err = errors.Join(err, conn.Close())
	}
	return err
}

// total is how many messages were sent.
func (t *paperTalk) total() (sum uint64) {
	for i := range t.sent {
		sum += t.sent[i].Load()
	}
	return sum
}

// byMessage returns the numbers of messages with their names.
func (t *paperTalk) byMessage() map[string]uint64 {
	counts := make(map[string]uint64)
	for i := range t.sent {
		if n := t.sent[i].Load(); n > 0 {
			counts[paperMessage(i).String()] = n
		}
	}
	return counts
}

// pilot returns the voice of one pilot; nil with our own protocol.
func (t *paperTalk) pilot(number int) *paperPilot {
	if t == nil {
		return nil
	}
	site := number % len(t.conns)
	return &paperPilot{talk: t, queue: healthpb.NewHealthClient(t.conns[site])}
}

// paperPilot is one pilot's part of a paperTalk; nil says nothing.
type paperPilot struct {
	talk  *paperTalk
	queue healthpb.HealthClient
}

// say sends a message so many times and waits for the answers, as 004's pilots
// do before they go on.
func (p *paperPilot) say(what paperMessage, times int) {
	for range times {
		p.talk.sent[what].Add(1)
		p.talk.waiting.Add(1)
		// A message is not cut off with the payload that it is about.
		_, err := p.queue.Check(context.Background(), &healthpb.HealthCheckRequest{})
		p.talk.waiting.Add(-1)
		if err != nil {
			p.talk.mutex.Lock()
			if p.talk.failed == nil {
				p.talk.failed = fmt.Errorf("message %s: %w", what, err)
			}
			p.talk.mutex.Unlock()
		}
	}
}

// assigned is said before a payload starts.
func (p *paperPilot) assigned() {
	if p == nil {
		return
	}
	if p.central() {
		p.say(taskRetrieval, 1)
	}
	p.say(taskDownload, 1)
}

// ended is said after a payload.
func (p *paperPilot) ended(files int) {
	if p == nil {
		return
	}
	p.say(taskCompletion, 1)
	p.say(jobReport, 1)
	p.cacheChanged(files)
}

// cacheChanged is said of files that came into the cache and of files that
// left it.
func (p *paperPilot) cacheChanged(files int) {
	if p != nil && p.talk.mode == pb.SiteMode_SITE_MODE_ISOLATED {
		p.say(fileReport, files)
	}
}

func (p *paperPilot) central() bool {
	return p.talk.mode == pb.SiteMode_SITE_MODE_CENTRALIZED || p.talk.mode == pb.SiteMode_SITE_MODE_ISOLATED
}

// beat tells that the pilot is alive until ctx or the pilot ends, which killed
// tells of; where there is a master it only waits.
func (p *paperPilot) beat(ctx context.Context, killed <-chan struct{}) error {
	var due <-chan time.Time
	if p != nil && p.central() && p.talk.heartbeat > 0 {
		ticker := time.NewTicker(p.talk.heartbeat)
		defer ticker.Stop()
		due = ticker.C
	}
	for {
		select {
		case <-due:
			p.say(heartbeat, 1)
		case <-killed:
			return errKilled
		case <-ctx.Done():
			return nil
		}
	}
}

// countPaper takes the requests of a run as 004's system would have made them:
// its messages, registrations and leaves, and the master's calls, which are as
// many in both.
func (r *OverlayResult) countPaper(t *paperTalk) {
	if t == nil {
		return
	}
	r.PaperRequestsByMessage = t.byMessage()
	r.PaperRequests = float64(t.total()) + r.RequestsByMethod["Register"] + r.RequestsByMethod["Leave"] +
		r.RequestsByMethod["Sync"] + r.RequestsByMethod["ClaimMastership"]
	r.PaperRequestsPerTask = r.PaperRequests / float64(r.Tasks)
}
