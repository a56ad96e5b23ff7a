package server

import (
	"context"
	"fmt"
	"path"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/prometheus/client_golang/prometheus"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/page"
)

// pageRecord is how often the live page keeps a look for its charts.
const pageRecord = 5 * time.Second

// pageBackend gives the live page what it shows.
type pageBackend struct {
	server  *Server
	methods map[string]pageMethod // by full name
}

// pageMethod is a unary method and the handlers that serve it.
type pageMethod struct {
	handlers any
	serve    grpc.MethodHandler
}

func newPageBackend(s *Server) *pageBackend {
	b := &pageBackend{s, make(map[string]pageMethod)}
	for _, service := range []struct {
		about    *grpc.ServiceDesc
		handlers any
	}{
		{&pb.TaskService_ServiceDesc, &taskHandlers{server: s}}, {&pb.FileService_ServiceDesc, &fileHandlers{server: s}},
		{&pb.SiteService_ServiceDesc, &siteHandlers{server: s}}, {&pb.PilotService_ServiceDesc, &pilotHandlers{server: s}},
	} {
		for _, method := range service.about.Methods {
			b.methods["/"+service.about.ServiceName+"/"+method.MethodName] = pageMethod{service.handlers, method.Handler}
		}
	}
	return b
}

// Admit lets people in.
func (b *pageBackend) Admit(token string) error {
	c, err := b.server.access.byToken("Bearer "+token, time.Now())
	if err == nil && c.kind&readers == 0 {
		err = fmt.Errorf("%w: %s may not look at the page, which takes an access of role read-only, submit or admin", errForbidden, c)
	}
	if err != nil {
		return statusOf(err)
	}
	return nil
}

// Call serves a method as gRPC does: the same rights, the same handlers.
func (b *pageBackend) Call(ctx context.Context, token, method string, request proto.Message) (proto.Message, error) {
	c, err := b.server.access.byToken("Bearer "+token, time.Now())
	if err == nil && permissions[method]&c.kind == 0 {
		err = fmt.Errorf("%w: %s may not call %s", errForbidden, c, path.Base(method))
	}
	if err != nil {
		return nil, statusOf(err)
	}
	found, known := b.methods[method]
	if !known {
		return nil, status.Errorf(codes.Unimplemented, "there is no method %s", method)
	}
	take := func(into any) error {
		proto.Merge(into.(proto.Message), request)
		return nil
	}
	guard := func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		info.FullMethod = method
		return b.server.guardUnary(ctx, request, info, handle)
	}
	reply, err := found.serve(found.handlers, context.WithValue(ctx, callerKey{}, c), take, guard)
	if err != nil {
		return nil, err
	}
	return reply.(proto.Message), nil
}

// Sees tells whether somebody may look into a workflow.
func (b *pageBackend) Sees(ctx context.Context, token, workflow string) bool {
	c, err := b.server.access.byToken("Bearer "+token, time.Now())
	return err == nil && b.server.sees(ctx, c, workflow)
}

// LooksAfter tells whether somebody is told what news of a site quote.
func (b *pageBackend) LooksAfter(token, site string) bool {
	c, err := b.server.access.byToken("Bearer "+token, time.Now())
	return err == nil && c.looksAfter(task.Site(site))
}

func (s *Server) sees(ctx context.Context, c caller, workflow string) bool {
	return c.person.Admin || c.person.Looks || s.turns.view(ctx, func(t *taskqueue.Turn) error {
		_, err := c.sees(t, workflow)
		return err
	}) == nil
}

// Events returns what has happened behind a number, the newest if it is much.
func (b *pageBackend) Events(after uint64, site string, most int) ([]page.Event, uint64) {
	return b.server.shown.events.after(after, site, most)
}

// Look tells how everything is now.
func (b *pageBackend) Look(ctx context.Context) (page.Look, error) {
	look := page.Look{Time: time.Now().UnixMilli(), Sites: []page.SiteLook{}}
	return look, b.server.turns.view(ctx, func(t *taskqueue.Turn) error {
		look.Sites = look.Sites[:0]
		look.Blocked, look.Unstored = openWork(t)
		ready := taskqueue.Read(t.Tasks().ReadyClasses())
		for _, n := range ready {
			look.Ready += n
		}
		sites := taskqueue.Read(t.Sites().All())
		for i := range sites {
			look.Sites = append(look.Sites, siteLook(&sites[i], t.Clock))
		}
		return nil
	})
}

// newestWorkflows is how many workflows are looked at for what of them is open.
const newestWorkflows = 200

// openWork returns how many tasks of the newest workflows are BLOCKED, and how many
// of their final outputs are on no storage element yet.
func openWork(t *taskqueue.Turn) (blocked, unstored int) {
	newest := taskqueue.Read(t.Workflows().List("", "", "", newestWorkflows))
	for i := range newest {
		blocked += newest[i].Counts[task.Blocked]
		if !newest[i].Over() {
			unstored += newest[i].Unstored
		}
	}
	return blocked, unstored
}

// unheardAfter is when a site's master counts as not heard: it calls every 2 s.
const unheardAfter = 10 * time.Second

func siteLook(site *taskqueue.SiteRecord, clock taskqueue.Instant) page.SiteLook {
	sums := &site.Sums
	s := page.SiteLook{
		Name: string(site.Name), Mode: string(site.InForce()), Master: string(site.Master), Pilots: site.Pilots,
		Slots: site.Capacity.Slots, Free: site.Capacity.FreeSlots, Running: site.Capacity.Running, Waiting: site.Capacity.Waiting,
		Cache: uint64(max(0, site.Capacity.CacheBytes)), Used: uint64(max(0, site.Capacity.CacheUsed)), SetBack: len(site.Nodes),
		DelayP50: quantile(sums.DelayBucket, .50), DelayP99: quantile(sums.DelayBucket, .99),
		SiteSums: page.SiteSums{
			Done: sums.Tasks, Failed: sums.Failures, Evicted: site.Capacity.Evictions, Requests: sums.Requests,
			Delays: sums.DelayCount, DelaySum: sums.DelaySum.Seconds(),
		},
	}
	reads := sums.Reads()
	s.Reads, s.Bytes = reads.Reads, reads.Bytes
	switch {
	case site.Draining:
		s.Note = "draining"
	case site.Fallback != "":
		s.Note = "fallen back: " + task.Brief(site.Fallback)
	case site.Pilots == 0:
		s.Note = "no pilots"
	}
	if silent := clock.Sub(site.LastHeard()); site.Pilots > 0 && silent > unheardAfter {
		s.Unheard, s.Note = true, fmt.Sprintf("not heard for %s", silent.Round(time.Second))
	}
	return s
}

// runPage keeps looks for the charts of those who come later.
func (s *Server) runPage(ctx context.Context) error {
	ticker := time.NewTicker(pageRecord)
	defer ticker.Stop()
	unheard := make(map[string]bool)
	for {
		var news []taskqueue.News
		if look, err := s.shown.page.Record(ctx); err == nil {
			news = newsOfMasters(look, unheard)
		}
		s.shown.events.tell(time.Now(), news...)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// newsOfMasters tells which masters are not heard any more, and which are again.
func newsOfMasters(look page.Look, unheard map[string]bool) (news []taskqueue.News) {
	for i := range look.Sites {
		site := &look.Sites[i]
		if site.Unheard == unheard[site.Name] {
			continue
		}
		told := taskqueue.News{Kind: taskqueue.NewsSiteHeard, Site: task.Site(site.Name), Pilot: task.PilotID(site.Master)}
		if unheard[site.Name] = site.Unheard; site.Unheard {
			told.Kind, told.Text = taskqueue.NewsSiteUnheard, site.Note
		}
		news = append(news, told)
	}
	return news
}

// shown is what people are shown of a running queue, besides what its store has. It
// begins anew with the queue.
type shown struct {
	page      *page.Page
	events    *events
	steps     *stepSums
	counts    *prometheus.CounterVec // of attempts
	factories factories
}

// attempts tells of attempts that have begun or ended, and of what they have stored.
func (s *shown) attempts(site task.Site, starts []task.Start, outcomes []task.Outcome, stored []task.Stored, acks []task.Ack) {
	var began, ended []page.Bar
	var outs []page.Out
	out := func(attempt task.AttemptID) {
		outs = append(outs, page.Out{Site: string(site), Attempt: attempt.String(), At: time.Now().UnixMilli()})
	}
	for i := range stored {
		out(stored[i].Attempt)
	}
	for i := range starts {
		bar := barOf(site, starts[i].Attempt)
		bar.Start = starts[i].Started.UnixMilli()
		began = append(began, bar)
	}
	verdicts := make(map[task.AttemptID]task.AckVerdict, len(acks))
	for _, ack := range acks {
		verdicts[ack.Attempt] = ack.Verdict
	}
	for i := range outcomes {
		o := &outcomes[i]
		countAttempt(s.counts, site, o, verdicts[o.Attempt])
		if verdicts[o.Attempt] != task.AckAccepted || o.Started.IsZero() {
			continue
		}
		s.page.Read(o.Reads)
		bar := barOf(site, o.Attempt)
		bar.Start, bar.StageIn, bar.Run = o.Started.UnixMilli(), o.StageIn.Milliseconds(), max(1, o.Run.Milliseconds())
		bar.OK, bar.Source = o.OK, page.MainSource(o.Reads)
		ended = append(ended, bar)
		if slices.ContainsFunc(o.Outputs, func(made task.Produced) bool { return made.URL != "" }) {
			out(o.Attempt)
		}
	}
	s.page.Began(began...)
	s.page.Ended(ended...)
	s.page.Stored(outs...)
}

func barOf(site task.Site, attempt task.AttemptID) page.Bar {
	return page.Bar{Site: string(site), Task: string(attempt.Task), Attempt: attempt.String(), Pilot: string(attempt.Pilot)}
}
