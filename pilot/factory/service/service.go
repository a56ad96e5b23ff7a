package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/factory"
	"github.com/pilotage-grid/pilotage/pilot/factory/batch"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
)

// Queue is what a factory asks of the queue.
type Queue interface {
	// Demand tells what waits for a site, and is told how the factory is.
	Demand(ctx context.Context, site task.Site, report *pb.FactoryReport) (*pb.GetDemandResponse, error)
	// Access makes an access file for one pilot of the site.
	Access(ctx context.Context, site task.Site, job string, life time.Duration) ([]byte, error)
}

// Config says how a factory runs.
type Config struct {
	Factory factory.Config
	Folder  string
	System  batch.System
	User    string
	Command func(shape *factory.Shape) string // what a job runs, one line of shell
	Queue   Queue
	Log     *slog.Logger
	Observe func(factory.Status) // after each round; nil is nobody
	DryRun  bool                 // decide once, submit and cancel nothing
}

// The access of a job is good for so long: jobs may wait in a batch system for days.
const accessLife = 72 * time.Hour

// callTime bounds each call of the queue.
const callTime = 20 * time.Second

// service is a running factory.
type service struct {
	*Config
	core     *factory.Factory
	folder   *folder
	compiler *matcher.Compiler
}

// Run works until ctx ends. Jobs go on without it.
func Run(ctx context.Context, config Config) error {
	f, err := open(config.Folder)
	if err != nil {
		return err
	}
	defer f.close()
	kept, err := f.load()
	if err != nil {
		return err
	}
	s := &service{
		Config: &config, folder: f, compiler: matcher.NewCompiler(4096),
		core: factory.New(config.Factory, kept, rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))), //nolint:gosec // jitter, no secret
	}
	config.Log.Info("the factory works", "site", config.Factory.Site, "jobs", len(kept.Jobs), "folder", config.Folder)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		if err := s.round(ctx); err != nil {
			return err
		}
		if config.DryRun {
			return nil
		}
		timer.Reset(max(0, time.Until(s.core.Deadline())))
	}
}

// round looks at the batch system, when that is due, and at the queue. Only what cannot be kept on
// disk ends a factory.
func (s *service) round(ctx context.Context) error {
	if s.core.ListingDue(time.Now()) {
		if err := s.step(ctx, s.list(ctx)); err != nil || ctx.Err() != nil {
			return err
		}
	}
	var event factory.Event = factory.Wake{}
	demand, err := s.demand(ctx)
	if err != nil {
		s.Log.Warn("the queue tells no demand", "error", err)
	} else {
		event = demand
	}
	if err := s.step(ctx, event); err != nil || ctx.Err() != nil {
		return err
	}
	now := time.Now()
	status := s.core.Status(now)
	if s.Observe != nil {
		s.Observe(status)
	}
	if s.DryRun {
		return nil
	}
	s.folder.clean(now, status.Jobs)
	return s.folder.save(statusFile, status)
}

func (s *service) list(ctx context.Context) factory.Event {
	asked := time.Now()
	listed, err := s.System.List(ctx)
	if err != nil {
		return factory.ListingFailed{Err: task.Brief(err.Error())}
	}
	traces := make(map[string]factory.Trace)
	for _, job := range s.core.Jobs() {
		there := slices.ContainsFunc(listed, func(l factory.Listed) bool { return l.Name == job.Name && l.State != factory.Ended })
		if !there && job.Pilot == "" {
			traces[job.Name] = s.folder.trace(job.Name)
		}
	}
	return factory.Listing{Asked: asked, Jobs: listed, Traces: traces}
}

func (s *service) step(ctx context.Context, event factory.Event) error {
	for _, action := range s.core.Step(time.Now(), event) {
		if err := s.carryOut(ctx, action); err != nil {
			return err
		}
	}
	return nil
}

func (s *service) carryOut(ctx context.Context, action factory.Action) error {
	switch a := action.(type) {
	case factory.Note:
		level := slog.LevelInfo
		if a.Warn {
			level = slog.LevelWarn
		}
		s.Log.Log(ctx, level, a.What, "why", a.Why)
	case factory.Keep:
		if !s.DryRun {
			return s.folder.save(keptFile, a.Kept)
		}
	case factory.Cancel:
		if s.DryRun {
			s.Log.Info("would cancel", "jobs", a.IDs)
			return nil
		}
		if err := s.System.Cancel(ctx, a.IDs...); err != nil {
			s.Log.Warn("jobs could not be cancelled", "error", err)
		}
	case factory.Submit:
		if s.DryRun {
			s.Log.Info("would submit", "shape", a.Shape.Name, "arguments", a.Shape.Arguments, "without", a.Exclude)
			return nil
		}
		if ctx.Err() != nil { // the job stays planned, and the next start finds that it does not exist
			return nil
		}
		return s.step(ctx, s.submit(ctx, &a))
	}
	return nil
}

func (s *service) submit(ctx context.Context, a *factory.Submit) factory.Event {
	called, stop := context.WithTimeout(ctx, callTime)
	defer stop()
	access, err := s.Queue.Access(called, s.Factory.Site, a.Name, accessLife)
	if err != nil {
		return factory.SubmitFailed{Name: a.Name, Err: task.Brief("the queue gives no access: " + err.Error()), Certain: true}
	}
	id, err := s.System.Submit(ctx, &batch.Job{
		Name: a.Name, Script: s.folder.script(a.Name), Log: s.folder.log(a.Name), Arguments: a.Shape.Arguments,
		Exclude: a.Exclude, Command: s.Command(a.Shape), Access: string(access), User: s.User,
	})
	if err != nil {
		return factory.SubmitFailed{Name: a.Name, Err: task.Brief(err.Error()), Certain: errors.Is(err, batch.ErrRefused)}
	}
	s.Log.Info("submitted", "job", a.Name, "id", id, "shape", a.Shape.Name)
	return factory.Submitted{Name: a.Name, ID: id}
}

// demand asks the queue, and judges requirements by what the shapes offer.
func (s *service) demand(ctx context.Context) (factory.Demand, error) {
	called, stop := context.WithTimeout(ctx, callTime)
	defer stop()
	reply, err := s.Queue.Demand(called, s.Factory.Site, s.report())
	if err != nil {
		return factory.Demand{}, err
	}
	d := factory.Demand{FreeSlots: int(reply.GetFreeSlots()), Draining: reply.GetDraining()}
	for _, c := range reply.GetClasses() {
		class := factory.Class{
			Class: task.Class{Require: c.GetRequire(), Resources: taskpb.FromResources(c.GetResources())},
			Tasks: int(c.GetTasks()), Walltime: c.GetWalltime().AsDuration(), Live: c.GetLive(),
		}
		for i := range s.Factory.Shapes {
			if shape := &s.Factory.Shapes[i]; !s.fits(shape, class.Class, c.GetRefused()) {
				class.Unfit = append(class.Unfit, shape.Name)
			}
		}
		d.Classes = append(d.Classes, class)
	}
	for _, p := range reply.GetPilots() {
		d.Pilots = append(d.Pilots, factory.Pilot{
			ID: task.PilotID(p.GetPilot()), Job: p.GetJob(), Node: p.GetNode(), Alive: p.GetAlive(), Tasks: p.GetDone(), Error: p.GetError(),
		})
	}
	for _, n := range reply.GetNodes() {
		d.Nodes = append(d.Nodes, factory.Node{Name: n.GetName(), Left: n.GetLeft().AsDuration()})
	}
	return d, nil
}

// mostNodes bounds the nodes that a factory tells the queue of.
const mostNodes = 50

// report is how the factory was at the end of the last round.
func (s *service) report() *pb.FactoryReport {
	now := time.Now()
	status := s.core.Status(now)
	report := &pb.FactoryReport{Name: status.Mark, Paused: task.Brief(status.Paused), Reason: task.Brief(status.Reason), ListingAge: durationpb.New(status.Listing)}
	report.Host, _ = os.Hostname()
	for i := range status.Jobs {
		switch status.Jobs[i].State {
		case factory.Planned, factory.Pending:
			report.Pending++
		case factory.Running:
			report.Running++
		case factory.Ended:
		}
	}
	for i := range s.Factory.Shapes {
		shape := &s.Factory.Shapes[i]
		report.Shapes = append(report.Shapes, &pb.FactoryShape{
			Name: shape.Name, Resources: taskpb.Resources(shape.Resources), Features: shape.Features, Arch: runtime.GOARCH, Os: runtime.GOOS,
			Lifetime: durationpb.New(shape.Lifetime()),
		})
	}
	if !status.Took.IsZero() {
		report.LastSubmission = timestamppb.New(status.Took)
	}
	for _, fault := range status.Nodes[:min(mostNodes, len(status.Nodes))] {
		report.Nodes = append(report.Nodes, &pb.DemandNode{Name: fault.Node, Left: durationpb.New(max(0, fault.Until.Sub(now))), Error: fault.Why})
	}
	return report
}

// fits tells whether a pilot of the shape may meet a requirement. What only a pilot that
// is there can tell counts as met, until the site's pilots have refused such tasks.
func (s *service) fits(shape *factory.Shape, class task.Class, refused bool) bool {
	pilot := matcher.Pilot{
		Site: s.Factory.Site, Resources: shape.Resources, Slots: shape.Resources.Cores, Features: shape.Features,
		Arch: runtime.GOARCH, OS: runtime.GOOS, Lifetime: shape.Lifetime(),
	}
	return s.compiler.MayRun(&pilot, class, refused)
}

// Client is a Queue by gRPC.
type Client struct{ Sites pb.SiteServiceClient }

// Demand asks for what waits for a site, and tells how the factory is.
func (c Client) Demand(ctx context.Context, site task.Site, report *pb.FactoryReport) (*pb.GetDemandResponse, error) {
	reply, err := c.Sites.GetDemand(ctx, &pb.GetDemandRequest{Site: string(site), Factory: report})
	if err != nil {
		return nil, fmt.Errorf("ask for the demand of site %s: %w", site, err)
	}
	return reply, nil
}

// Access makes an access file for one pilot.
func (c Client) Access(ctx context.Context, site task.Site, job string, life time.Duration) ([]byte, error) {
	reply, err := c.Sites.CreateAccess(ctx, &pb.CreateAccessRequest{
		Role: "pilot", Site: string(site), Label: "job " + job, Once: true, Job: job, ValidFor: durationpb.New(life),
	})
	if err != nil {
		return nil, fmt.Errorf("make an access for job %s: %w", job, err)
	}
	return reply.GetAccessFile(), nil
}
