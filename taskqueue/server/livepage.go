package server

import (
	"context"
	"fmt"
	"path"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

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

// Look tells how everything is now.
func (b *pageBackend) Look(ctx context.Context) (page.Look, error) {
	look := page.Look{Time: time.Now().UnixMilli(), Sites: []page.SiteLook{}}
	return look, b.server.turns.view(ctx, func(t *taskqueue.Turn) error {
		ready, err := t.Tasks().ReadyClasses()
		if err != nil {
			return fmt.Errorf("count READY tasks: %w", err)
		}
		for _, n := range ready {
			look.Ready += n
		}
		sites, err := t.Sites().All()
		if err != nil {
			return fmt.Errorf("load sites: %w", err)
		}
		for i := range sites {
			s := siteLook(&sites[i])
			look.Waiting += s.Waiting
			look.Running += s.Running
			look.Done += s.Done
			look.Failed += s.Failed
			look.Requests += sites[i].Sums.Requests
			look.Sites = append(look.Sites, s)
		}
		return nil
	})
}

func siteLook(site *taskqueue.SiteRecord) page.SiteLook {
	sums := &site.Sums
	s := page.SiteLook{
		Name: string(site.Name), Mode: string(site.InForce()), Master: string(site.Master), Pilots: site.Pilots,
		Slots: site.Capacity.Slots, Free: site.Capacity.FreeSlots, Running: site.Capacity.Running, Waiting: site.Capacity.Waiting,
		Done: sums.Tasks, Failed: sums.Failures, Cache: uint64(max(0, site.Capacity.CacheBytes)), Used: uint64(max(0, site.Capacity.CacheUsed)),
		SetBack: len(site.Nodes), DelayP50: quantile(sums.DelayBucket, .50), DelayP99: quantile(sums.DelayBucket, .99),
	}
	for i, source := range []task.Source{task.SourceLocal, task.SourcePeer, task.SourceSE, task.SourceRemote} {
		s.Reads[i] = sums.Intermediate.Reads[source] + sums.External.Reads[source]
		s.Bytes[i] = sums.Intermediate.Bytes[source] + sums.External.Bytes[source]
	}
	switch {
	case site.Draining:
		s.Note = "draining"
	case site.Fallback != "":
		s.Note = "fallen back: " + task.Brief(site.Fallback)
	case site.Pilots == 0:
		s.Note = "no pilots"
	}
	return s
}

// runPage keeps looks for the charts of those who come later.
func (s *Server) runPage(ctx context.Context) error {
	ticker := time.NewTicker(pageRecord)
	defer ticker.Stop()
	for {
		s.page.Record(ctx)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// showAttempts tells the live page of attempts that have begun or ended.
func showAttempts(p *page.Page, site task.Site, starts []task.Start, outcomes []task.Outcome, acks []task.Ack) {
	var began, ended []page.Bar
	for i := range starts {
		bar := barOf(site, starts[i].Attempt)
		bar.Start = starts[i].Started.UnixMilli()
		began = append(began, bar)
	}
	accepted := make(map[task.AttemptID]bool, len(acks))
	for _, ack := range acks {
		accepted[ack.Attempt] = ack.Verdict == task.AckAccepted
	}
	for i := range outcomes {
		o := &outcomes[i]
		if !accepted[o.Attempt] || o.Started.IsZero() {
			continue
		}
		bar := barOf(site, o.Attempt)
		bar.Start, bar.StageIn, bar.Run = o.Started.UnixMilli(), o.StageIn.Milliseconds(), max(1, o.Run.Milliseconds())
		bar.OK, bar.Source = o.OK, mainSource(o.Reads)
		ended = append(ended, bar)
	}
	p.Began(began...)
	p.Ended(ended...)
}

func barOf(site task.Site, attempt task.AttemptID) page.Bar {
	return page.Bar{Site: string(site), Task: string(attempt.Task), Attempt: attempt.String(), Pilot: string(attempt.Pilot)}
}

// mainSource is where most of an attempt's bytes came from.
func mainSource(reads []task.Read) int {
	var bytes [4]task.Bytes
	most := 0
	for i := range reads {
		at := 0
		switch reads[i].Source {
		case task.SourcePeer:
			at = 1
		case task.SourceSE:
			at = 2
		case task.SourceRemote:
			at = 3
		}
		if bytes[at] += 1 + reads[i].Size; bytes[at] > bytes[most] {
			most = at
		}
	}
	return most
}
