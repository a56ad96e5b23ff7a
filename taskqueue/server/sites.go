package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/pilotage-grid/pilotage/identity"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// siteHandlers serve SiteService.
type siteHandlers struct {
	pb.UnimplementedSiteServiceServer
	server *Server
}

// loadSite returns a site.
func loadSite(t *taskqueue.Turn, name string) (*taskqueue.SiteRecord, error) {
	found := taskqueue.Read(t.Sites().Load(task.Site(name)))
	if len(found) == 0 {
		return nil, taskqueue.NotFound("site", strconv.Quote(name))
	}
	return &found[0], nil
}

// AddSite creates or changes a site and writes the access file of its pilots.
func (h *siteHandlers) AddSite(ctx context.Context, in *pb.AddSiteRequest) (*pb.AddSiteResponse, error) {
	site, err := checkSite(in.GetSettings(), taskpb.FromMode(in.GetSettings().GetMode()))
	if err != nil {
		return nil, err
	}
	if c := callerOf(ctx); c.kind == operator {
		if err := c.of(string(site.Name)); err != nil {
			return nil, err
		}
		if site.SEFiles != (taskqueue.SEFiles{}) { // they are of the queue's account
			return nil, fmt.Errorf("%w: which files of the queue's host open a storage element an admin says", errForbidden)
		}
	}
	if _, err := readCredential(site.SE, site.SEFiles); err != nil {
		return nil, invalid("%w", err)
	}
	out := &pb.AddSiteResponse{}
	err = h.server.turns.update(ctx, func(t *taskqueue.Turn) (err error) {
		changed := taskqueue.Read(keepSettings(t, site, in.GetUpdateMask()))
		if out.Created, err = h.server.turns.rules.AddSite(t, changed); err != nil {
			return err
		}
		record, err := loadSite(t, string(site.Name))
		if err == nil {
			out.Site = h.server.siteOf(record, callerOf(ctx), t.Clock)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := h.server.secrets.read(ctx); err != nil {
		return nil, err
	}
	return out, h.server.access.ensureAccess(ctx, identity.RolePilot, site.Name)
}

// keepSettings takes over, from a site that exists, the settings that a mask
// does not name.
func keepSettings(t *taskqueue.Turn, site taskqueue.SiteRecord, mask *fieldmaskpb.FieldMask) (taskqueue.SiteRecord, error) {
	known := taskqueue.Read(t.Sites().Load(site.Name))
	if mask == nil || len(known) == 0 {
		return site, nil
	}
	changed := known[0]
	for _, path := range mask.GetPaths() {
		set, is := settingsByName[path]
		if !is {
			return site, invalid("update_mask: %q is no setting of a site that can be changed", path)
		}
		set(&changed, &site)
	}
	return changed, nil
}

// settingsByName take over one setting of a site each, by its name in an update mask.
var settingsByName = map[string]func(site, from *taskqueue.SiteRecord){
	"storage_url":     func(site, from *taskqueue.SiteRecord) { site.SE = from.SE },
	"se_token_file":   func(site, from *taskqueue.SiteRecord) { site.SEFiles.Token = from.SEFiles.Token },
	"se_client_cert":  func(site, from *taskqueue.SiteRecord) { site.SEFiles.Certificate = from.SEFiles.Certificate },
	"se_ca":           func(site, from *taskqueue.SiteRecord) { site.SEFiles.Authorities = from.SEFiles.Authorities },
	"remote_read":     func(site, from *taskqueue.SiteRecord) { site.RemoteRead = from.RemoteRead },
	"mode":            func(site, from *taskqueue.SiteRecord) { site.Mode, site.Fallback = from.Mode, "" }, // and let its pilots try again
	"reach":           func(site, from *taskqueue.SiteRecord) { site.Reach = from.Reach },
	"round_period":    func(site, from *taskqueue.SiteRecord) { site.RoundEvery = from.RoundEvery },
	"prefill":         func(site, from *taskqueue.SiteRecord) { site.Prefill = from.Prefill },
	"locality_wait":   func(site, from *taskqueue.SiteRecord) { site.LocalityWait = from.LocalityWait },
	"solver":          func(site, from *taskqueue.SiteRecord) { site.Solver = from.Solver },
	"rank":            func(site, from *taskqueue.SiteRecord) { site.Rank = from.Rank },
	"replicate":       func(site, from *taskqueue.SiteRecord) { site.Replicate = from.Replicate },
	"min_confinement": func(site, from *taskqueue.SiteRecord) { site.MinConfinement = from.MinConfinement },
}

// RemoveSite forgets a site, and deletes the access file of its pilots.
func (h *siteHandlers) RemoveSite(ctx context.Context, in *pb.RemoveSiteRequest) (*pb.RemoveSiteResponse, error) {
	site, err := task.ParseSite(in.GetName())
	if err != nil {
		return nil, invalid("%w", err)
	}
	err = h.server.turns.update(ctx, func(t *taskqueue.Turn) error { return h.server.turns.rules.RemoveSite(t, site, in.GetForce()) })
	if err != nil {
		return nil, err
	}
	if err := h.server.access.reloadAccess(ctx); err != nil {
		return nil, err
	}
	if err := os.Remove(h.server.access.accessPath(identity.RolePilot, site)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("delete the access file of %s: %w", site, err)
	}
	return &pb.RemoveSiteResponse{}, nil
}

// ListSites lists all sites by name.
func (h *siteHandlers) ListSites(ctx context.Context, in *pb.ListSitesRequest) (*pb.ListSitesResponse, error) {
	h.server.storeRequests(ctx)
	out := &pb.ListSitesResponse{}
	return out, h.server.turns.view(ctx, func(t *taskqueue.Turn) (err error) {
		sites := taskqueue.Read(t.Sites().All())
		name := func(s *taskqueue.SiteRecord) string { return string(s.Name) }
		out.Sites, out.NextPageToken, err = pageOf("sites", in, sites, name, func(s *taskqueue.SiteRecord) *pb.Site {
			site := h.server.siteOf(s, callerOf(ctx), t.Clock)
			site.Waiting = int32(taskqueue.Read(h.server.turns.rules.Waiting(t, s.Name, h.server.shown.factories.sends(time.Now()))))
			return site
		})
		return err
	})
}

// waiting returns how many tasks wait for a site's pilots, and how many of them a live
// pilot can run.
func (s *Server) waiting(t *taskqueue.Turn, site task.Site) (all, live int) {
	demand := taskqueue.Read(s.turns.rules.Demand(t, site, s.shown.factories.sends(time.Now())))
	all = demand.More
	for i := range demand.Classes {
		all += demand.Classes[i].Tasks
		if demand.Classes[i].Live {
			live += demand.Classes[i].Tasks
		}
	}
	return all, live
}

// mostSoleCopies bounds the files of which only caches have a copy that are counted.
const mostSoleCopies = 1000

// GetSite returns one site with all its sums, and if asked for what it did lately.
func (h *siteHandlers) GetSite(ctx context.Context, in *pb.GetSiteRequest) (*pb.GetSiteResponse, error) {
	h.server.storeRequests(ctx)
	out := &pb.GetSiteResponse{}
	return out, h.server.turns.view(ctx, func(t *taskqueue.Turn) error {
		site := taskqueue.Read(loadSite(t, in.GetName()))
		c := callerOf(ctx)
		out.Site, out.Nodes = h.server.siteOf(site, c, t.Clock), setBack(site.Marks(t.Clock), c.looksAfter(site.Name))
		alone := taskqueue.Read(t.Files().OnlyAnnouncedAt(site.Name, "", mostSoleCopies))
		out.SoleCopies = int32(len(alone))
		if since := in.GetSince().AsDuration(); since > 0 {
			then, kept := h.server.shown.page.Before(since)
			if now, any := h.server.shown.page.Before(0); kept && any {
				out.Window = window(then, now, site)
			}
		}
		return nil
	})
}

// mostPilotsOfOthers is how many pilots a factory is told of that none of its jobs has
// started: of them it learns names of nodes only.
const mostPilotsOfOthers = 1000

// GetDemand tells what waits for a site's pilots.
func (h *siteHandlers) GetDemand(ctx context.Context, in *pb.GetDemandRequest) (*pb.GetDemandResponse, error) {
	if err := callerOf(ctx).of(in.GetSite()); err != nil {
		return nil, err
	}
	now, c := time.Now(), callerOf(ctx)
	looksAfter := c.looksAfter(task.Site(in.GetSite()))
	report := in.GetFactory()
	if c.kind == factory && report == nil {
		report = &pb.FactoryReport{} // another program that sends pilots
	} else if c.kind&(stewards|factory) == 0 {
		report = nil
	}
	if report != nil {
		if err := h.server.shown.factories.tell(in.GetSite(), report, now); err != nil {
			return nil, err
		}
	}
	demand, err := seen(ctx, h.server.turns, func(t *taskqueue.Turn) (taskqueue.Demand, error) {
		return h.server.turns.rules.Demand(t, task.Site(in.GetSite()), h.server.shown.factories.sends(now))
	})
	if err != nil {
		return nil, err
	}
	out := &pb.GetDemandResponse{
		MoreTasks: int64(demand.More), FreeSlots: int32(demand.FreeSlots), Draining: demand.Draining,
		Factories: h.server.shown.factories.of(in.GetSite(), now),
	}
	for i := range demand.Classes {
		class := &demand.Classes[i]
		told := &pb.DemandClass{
			Resources: taskpb.Resources(class.Resources), Tasks: int64(class.Tasks), Walltime: durationpb.New(class.Walltime), Live: class.Live,
			Refused: class.Refused,
		}
		if looksAfter {
			told.Require = class.Require
		}
		out.Classes = append(out.Classes, told)
	}
	others := 0
	for i := range demand.Pilots {
		p := &demand.Pilots[i]
		if name := report.GetName(); name == "" || !strings.HasPrefix(p.Job, name) {
			if others++; others > mostPilotsOfOthers {
				continue
			}
		}
		told := &pb.DemandPilot{Pilot: string(p.ID), Job: p.Job, Node: p.Node(), Alive: p.State.Present() && !demand.Silent, Done: p.Sums.Done}
		if p.State == taskqueue.PilotDead { // one that left has ended in order, be it without a task
			told.Error = task.Brief(p.Reason)
		}
		out.Pilots = append(out.Pilots, told)
	}
	out.Nodes = setBack(demand.Nodes, looksAfter)
	return out, nil
}

// setBack describes nodes that get no task for a while, and if told to why: how tasks
// have failed there.
func setBack(marks []task.NodeMark, why bool) (nodes []*pb.DemandNode) {
	for _, mark := range marks {
		node := &pb.DemandNode{Name: mark.Name, Left: durationpb.New(mark.Left)}
		if why {
			node.Error = mark.Why
		}
		nodes = append(nodes, node)
	}
	return nodes
}

// DrainSite stops or resumes hand-outs to a site.
func (h *siteHandlers) DrainSite(ctx context.Context, in *pb.DrainSiteRequest) (*pb.DrainSiteResponse, error) {
	if err := callerOf(ctx).of(in.GetName()); err != nil {
		return nil, err
	}
	return &pb.DrainSiteResponse{}, h.server.turns.update(ctx, func(t *taskqueue.Turn) error {
		return h.server.turns.rules.DrainSite(t, task.Site(in.GetName()), !in.GetResume())
	})
}

// siteOf describes a site with its sums, and what its pilots cannot run. What that
// requires only those learn who look after the site.
func (s *Server) siteOf(site *taskqueue.SiteRecord, c caller, clock taskqueue.Instant) *pb.Site {
	settings := taskpb.Settings(s.turns.rules.Settings(*site))
	settings.SeTokenFile, settings.SeClientCert, settings.SeCa = site.SEFiles.Token, site.SEFiles.Certificate, site.SEFiles.Authorities
	settings.MinConfinement = int32(site.MinConfinement)
	for _, reached := range site.Reach {
		settings.Reach = append(settings.Reach, string(reached))
	}
	sums := &site.Sums
	out := &pb.Site{
		Settings: settings, Pilots: int32(site.Pilots), Slots: int32(site.Capacity.Slots), FreeSlots: int32(site.Capacity.FreeSlots),
		Running: int32(site.Capacity.Running), Waiting: int32(site.Capacity.Waiting),
		Intermediate: sourceSums(&sums.Intermediate), External: sourceSums(&sums.External),
		Tasks: sums.Tasks, Failures: sums.Failures, Duplicates: sums.Duplicates,
		SeTransfers: sums.SEReads, SeTransferBytes: sums.SEReadBytes,
		Replicas: sums.Replicas.Files, ReplicaBytes: uint64(max(0, sums.Replicas.Bytes)),
		QueueRequests: sums.Requests, RequestsByMethod: sums.Methods,
		DelayCount: sums.DelayCount, DelaySum: durationpb.New(sums.DelaySum),
		DelayP50Seconds: quantile(sums.DelayBucket, .50), DelayP95Seconds: quantile(sums.DelayBucket, .95),
		DelayP99Seconds: quantile(sums.DelayBucket, .99),
		Master:          string(site.Master), CacheBytes: uint64(max(0, site.Capacity.CacheBytes)),
		CacheUsedBytes: uint64(max(0, site.Capacity.CacheUsed)), Evictions: site.Capacity.Evictions, Damaged: site.Capacity.Damaged, StaleTerms: sums.StaleTerms,
		StoppedPilots: int32(site.Capacity.Stopped), StoppedWhy: site.Capacity.StoppedWhy, Fallback: site.Fallback,
	}
	looksAfter := c.looksAfter(site.Name)
	if site.Capacity.StoppedWhy != "" && !looksAfter {
		out.StoppedWhy = forOperators
	}
	if site.ModeSince > 0 {
		out.ModeFor = durationpb.New(max(0, clock.Sub(site.ModeSince)))
	}
	if site.Fallback != "" {
		out.TrialIn = durationpb.New(0)
		if site.Trial == 0 {
			out.TrialIn = durationpb.New(max(0, site.TrialAt.Sub(clock)))
		}
	}
	if !site.Term.IsZero() {
		last := site.LastSync
		if sign, ever := s.masters.desk.Heard(site.Name, clock); ever && !sign.Assumed && sign.Term == site.Term {
			last = max(last, sign.At)
		}
		out.Term, out.LastSyncAgo = site.Term.String(), durationpb.New(max(0, clock.Sub(last)))
	}
	for _, m := range site.History {
		out.History = append(out.History, &pb.Mastership{
			Term: m.Term.String(), Pilot: string(m.Pilot), Since: taskpb.Time(m.Since), Why: m.Why,
		})
	}
	for _, r := range site.Refused {
		told := &pb.RefusedClass{Pilots: int32(r.Pilots)}
		if looksAfter {
			told.Require, told.Clauses = r.Class.Require, taskpb.Clauses(r.Clauses)
		}
		out.Refused = append(out.Refused, told)
	}
	return out
}

func sourceSums(s *taskqueue.SourceSums) *pb.SourceSums {
	return &pb.SourceSums{
		LocalReads: s.Reads[task.SourceLocal], LocalBytes: s.Bytes[task.SourceLocal],
		PeerReads: s.Reads[task.SourcePeer], PeerBytes: s.Bytes[task.SourcePeer],
		SeReads: s.Reads[task.SourceSE], SeBytes: s.Bytes[task.SourceSE],
		RemoteReads: s.Reads[task.SourceRemote], RemoteBytes: s.Bytes[task.SourceRemote],
	}
}

// quantile estimates, in seconds, the q-quantile of the inter-task delays from
// their histogram, by linear interpolation within a bucket; 0 without any.
func quantile(buckets []uint64, q float64) float64 {
	total := uint64(0)
	for _, n := range buckets {
		total += n
	}
	wanted, below := q*float64(total), 0.0
	lower := 0.0
	for i, n := range buckets {
		if i == len(taskqueue.DelayBuckets) {
			break // beyond the last bound nothing is known
		}
		upper := taskqueue.DelayBuckets[i]
		if n > 0 && below+float64(n) >= wanted {
			return lower + (upper-lower)*(wanted-below)/float64(n)
		}
		below += float64(n)
		lower = upper
	}
	if total == 0 {
		return 0
	}
	return lower
}
