package server

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/prometheus/client_golang/prometheus"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/page"
)

const (
	// keepEvents is how many events who comes later is told of.
	keepEvents = 5_000
	// eventsAtOnce are in one message: of each stream that is not read one is in memory.
	eventsAtOnce = 100
	// failurePause is the shortest time between two events of one failing step.
	failurePause = 10 * time.Second
	// keepFailing bounds the failing steps that are told from each other; all others are
	// told of as one.
	keepFailing = 1_000
)

// events are what the log, the stream of events and the live page tell: one list.
type events struct {
	log     *slog.Logger
	watches watches // of allEvents

	mu      sync.Mutex
	list    []page.Event // by number, without gaps
	number  uint64
	counts  *prometheus.CounterVec
	failing map[failingStep]failing
	look    time.Time // none of failing has its pause over before
}

// allEvents is what those watch who follow events.
const allEvents = "events"

type failingStep struct {
	workflow   task.WorkflowID
	step, text string
}

// failing is when a step was told of, and what has failed since.
type failing struct {
	told  time.Time
	since taskqueue.News
}

func newEvents(log *slog.Logger) *events {
	return &events{
		log: log, counts: newEventCounts(), failing: make(map[failingStep]failing),
	}
}

// tell logs news and keeps it for those who watch, and tells of what has failed since a
// step was told of, once the pause is over.
func (e *events) tell(now time.Time, news ...taskqueue.News) {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.number
	for i := range news {
		n := &news[i]
		e.counts.WithLabelValues(string(n.Kind), string(n.Site)).Add(float64(max(1, n.Count)))
		if n.Kind != taskqueue.NewsStepFailed || e.due(now, n) {
			e.add(now, n)
		}
	}
	if !now.Before(e.look) {
		e.tellAgain(now)
	}
	if len(e.list) > keepEvents+keepEvents/4 {
		e.list = append(e.list[:0], e.list[len(e.list)-keepEvents:]...)
	}
	if e.number > before {
		e.watches.changed(allEvents)
	}
}

// tellAgain tells of what has failed since a step was told of, where the pause is over.
func (e *events) tellAgain(now time.Time) {
	e.look = now.Add(failurePause)
	for key, f := range e.failing {
		if over := f.told.Add(failurePause); now.Before(over) {
			if over.Before(e.look) {
				e.look = over
			}
			continue
		}
		if delete(e.failing, key); f.since.Count > 0 {
			e.failing[key] = failing{told: now}
			e.add(now, &f.since)
		}
	}
}

func (e *events) add(now time.Time, n *taskqueue.News) {
	e.number++
	event := page.Event{
		Number: e.number, Time: now.UnixMilli(), Kind: string(n.Kind), Warns: n.Kind.Warns(), Quotes: n.Kind.Quotes(), Site: string(n.Site), Pilot: string(n.Pilot),
		Node: n.Node, Workflow: string(n.Workflow), Task: string(n.Task), Text: n.Text,
	}
	if n.Kind == taskqueue.NewsStepFailed {
		event.Text = fmt.Sprintf("%s of step %s: %s", task.Counted(n.Count, "task"), n.Step, n.Text)
		if n.Step == "" {
			event.Text = fmt.Sprintf("%s of further steps: more fail than are told one by one", task.Counted(n.Count, "task"))
		}
	}
	e.write(&event)
	e.list = append(e.list, event)
}

// due tells whether a failing step is to be told of now, with all that has failed
// since the last time.
func (e *events) due(now time.Time, n *taskqueue.News) bool {
	key := failingStep{n.Workflow, n.Step, n.Text}
	f, known := e.failing[key]
	if !known && len(e.failing) >= keepFailing {
		*n, key = taskqueue.News{Kind: n.Kind, Count: n.Count}, failingStep{}
		f, known = e.failing[key]
	}
	n.Count += f.since.Count
	if known && now.Sub(f.told) < failurePause {
		e.failing[key] = failing{f.told, *n}
		return false
	}
	e.failing[key] = failing{told: now}
	return true
}

// write logs an event.
func (e *events) write(event *page.Event) {
	level := slog.LevelInfo
	if event.Warns {
		level = slog.LevelWarn
	}
	var named []any
	for _, pair := range [][2]string{
		{"site", event.Site}, {"pilot", event.Pilot}, {"node", event.Node}, {"workflow", event.Workflow}, {"task", event.Task}, {"why", event.Text},
	} {
		if pair[1] != "" {
			named = append(named, pair[0], pair[1])
		}
	}
	e.log.Log(context.Background(), level, cmp.Or(eventWords[taskqueue.NewsKind(event.Kind)], event.Kind), named...)
}

// eventWords say in the log what has happened.
var eventWords = map[taskqueue.NewsKind]string{
	taskqueue.NewsPilotJoined: "a pilot has joined", taskqueue.NewsPilotLeft: "a pilot has left", taskqueue.NewsPilotDied: "a pilot is taken for dead",
	taskqueue.NewsPilotHeld: "a pilot takes no new work", taskqueue.NewsPilotGoesOn: "a pilot takes work again",
	taskqueue.NewsNodeSetBack: "a node is set back: tasks fail there that do not elsewhere", taskqueue.NewsNodeGoesOn: "a node is not set back any more",
	taskqueue.NewsSiteMaster: "a site has a new master", taskqueue.NewsSiteSilent: "a site is silent", taskqueue.NewsSiteUnheard: "the master of a site is not heard", taskqueue.NewsSiteHeard: "the master of a site is heard again", taskqueue.NewsSiteMode: "a site is in another mode",
	taskqueue.NewsClassRefused: "no pilot of a site can run tasks of a class", taskqueue.NewsStepFailed: "tasks have failed for good",
	taskqueue.NewsWorkflowOver: "a workflow is over",
}

// after returns events behind a number, of one site if one is named: the newest, at
// most so many, oldest first.
func (e *events) after(number uint64, site string, most int) (found []page.Event, newest uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	from := len(e.list)
	for n := 0; from > 0 && e.list[from-1].Number > number && n < most; from-- {
		if site == "" || e.list[from-1].Site == site {
			n++
		}
	}
	for _, event := range e.list[from:] {
		if site == "" || event.Site == site {
			found = append(found, event)
		}
	}
	return found, e.number
}

// next returns events behind a number, of one site if one is named: the oldest that are
// kept, at most so many, and the number behind which it goes on.
func (e *events) next(number uint64, site string, most int) (found []page.Event, behind uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	first := e.number + 1 - uint64(len(e.list))
	kept := e.number - min(e.number, max(number, first-1))
	for _, event := range e.list[uint64(len(e.list))-kept:] {
		if len(found) == most {
			return found, event.Number - 1
		}
		if site == "" || event.Site == site {
			found = append(found, event)
		}
	}
	return found, e.number
}

// WatchEvents sends what has happened since the queue began, as far as it is kept,
// and, if it is to follow, what happens from now on.
func (h *siteHandlers) WatchEvents(request *pb.WatchEventsRequest, stream grpc.ServerStreamingServer[pb.WatchEventsResponse]) error {
	ctx := stream.Context()
	if site := request.GetSite(); site != "" {
		if err := h.server.turns.view(ctx, func(t *taskqueue.Turn) error {
			_, err := loadSite(t, site)
			return err
		}); err != nil {
			return err
		}
	}
	watches := &h.server.shown.events.watches
	wake := watches.begin(allEvents)
	defer watches.end(allEvents, wake)
	looksAfter := func(site string) bool { return callerOf(ctx).looksAfter(task.Site(site)) }
	for number := request.GetAfter(); ; {
		if err := h.server.access.recheck(callerOf(ctx), time.Now()); err != nil {
			return err
		}
		found, behind := h.server.shown.events.next(number, request.GetSite(), eventsAtOnce)
		seen, err := h.server.seenOf(ctx, found)
		if err != nil {
			return err
		}
		if found = page.Shown(found, func(workflow string) bool { return seen[workflow] }, looksAfter); len(found) > 0 {
			reply := &pb.WatchEventsResponse{}
			for i := range found {
				reply.Events = append(reply.Events, eventOf(&found[i]))
			}
			if err := stream.Send(reply); err != nil {
				return err
			}
		}
		more := behind != number
		if number = behind; more {
			continue
		}
		if !request.GetFollow() {
			return nil
		}
		if err := h.server.woken(ctx, wake); err != nil {
			return err
		}
	}
}

// seenOf tells into which of the workflows of events the caller may look: one look into the
// store is for all of them.
func (s *Server) seenOf(ctx context.Context, found []page.Event) (seen map[string]bool, err error) {
	c := callerOf(ctx)
	seen = make(map[string]bool)
	if len(found) == 0 {
		return seen, nil
	}
	return seen, s.turns.view(ctx, func(t *taskqueue.Turn) error {
		clear(seen)
		for i := range found {
			name := found[i].Workflow
			if _, known := seen[name]; known || name == "" {
				continue
			}
			if seen[name] = c.person.Admin || c.person.Looks; !seen[name] {
				_, err := c.sees(t, name)
				seen[name] = err == nil
			}
		}
		return nil
	})
}

func eventOf(e *page.Event) *pb.Event {
	return &pb.Event{
		Number: e.Number, Time: timestamppb.New(time.UnixMilli(e.Time)), Kind: e.Kind, Warning: e.Warns, Site: e.Site, Pilot: e.Pilot, Node: e.Node,
		Workflow: e.Workflow, Task: e.Task, Text: e.Text,
	}
}

// newsOf puts what the rules tell of nodes and of modes of sites among the news.
func newsOf(effects *taskqueue.Effects) []taskqueue.News {
	news := effects.News
	for _, n := range effects.Nodes {
		told := taskqueue.News{Kind: taskqueue.NewsNodeGoesOn, Site: n.Site, Node: n.Node}
		if n.SetBack {
			told.Kind, told.Text = taskqueue.NewsNodeSetBack, fmt.Sprintf("for %s; last: %s", n.Pause.Round(time.Second), n.Why)
		}
		news = append(news, told)
	}
	for _, n := range effects.Sites {
		text := fmt.Sprintf("%s before, now %s: %s", n.Before, n.Mode, n.Why)
		switch {
		case n.Before == "":
			text = fmt.Sprintf("its pilots were tried in vain, it stays %s; next trial in %s: %s", n.Mode, n.TrialIn, n.Why)
		case n.TrialIn > 0:
			text = fmt.Sprintf("it falls back from %s to %s, and is tried in %s: %s", n.Before, n.Mode, n.TrialIn, n.Why)
		}
		news = append(news, taskqueue.News{Kind: taskqueue.NewsSiteMode, Site: n.Site, Text: text})
	}
	return news
}
