package server

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pilotage-grid/pilotage/matcher"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// factories keeps what those who start pilots tell of themselves, while they do. It is
// safe for concurrent use.
type factories struct {
	compiler *matcher.Compiler
	mu       sync.Mutex
	told     map[string]map[string]toldReport // by site and name; "" is who tells nothing of itself
}

type toldReport struct {
	at     time.Time
	report *pb.FactoryReport
}

const (
	// keepReport is how long a factory that asks no more is shown.
	keepReport = time.Minute
	// Bounds of what is kept: factories of a site, and nodes and bytes of each.
	mostFactories = 16
	mostBadNodes  = 50
	mostReport    = 64 << 10
	mostShapes    = 20
)

func (f *factories) init() {
	f.compiler, f.told = matcher.NewCompiler(1024), make(map[string]map[string]toldReport)
}

// tell keeps a factory's newest report.
func (f *factories) tell(site string, report *pb.FactoryReport, now time.Time) error {
	report.Nodes = report.GetNodes()[:min(mostBadNodes, len(report.GetNodes()))]
	report.Shapes = report.GetShapes()[:min(mostShapes, len(report.GetShapes()))]
	if n := proto.Size(report); n > mostReport {
		return invalid("report of factory %s: %s, at most %s are kept", task.Brief(report.GetName()), task.Bytes(n), task.Bytes(mostReport))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	of := f.told[site]
	if of == nil {
		of = make(map[string]toldReport)
		f.told[site] = of
	}
	if _, known := of[report.GetName()]; known || len(of) < mostFactories {
		of[report.GetName()] = toldReport{now, report}
	}
	return nil
}

// of lists the newest reports of a site's factories, by name.
func (f *factories) of(site string, now time.Time) (reports []*pb.FactoryReport) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, told := range f.told[site] {
		if now.Sub(told.at) > keepReport {
			delete(f.told[site], name)
			continue
		}
		if name != "" {
			reports = append(reports, told.report)
		}
	}
	slices.SortFunc(reports, func(a, b *pb.FactoryReport) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return reports
}

// described tells of a site that has no pilots whether some are on their way.
func (f *factories) described(site string, now time.Time) string {
	reports := f.of(site, now)
	var pending, running, held int32
	for _, report := range reports {
		pending += report.GetPending()
		running += report.GetRunning()
		if report.GetPaused() != "" {
			held++
		}
	}
	switch {
	case len(reports) == 0:
		return "no factory there asks for work"
	case int(held) == len(reports):
		return "failures hold its factory back: factory status, at the site, says why"
	}
	return fmt.Sprintf("its factory has %s pending and %d running", task.Counted(int(pending), "job"), running)
}

// sends tells whether a factory that has asked within the last minute, and that failures
// do not hold back, sends a site pilots that can run a class. One that does not tell its
// shapes may send any.
func (f *factories) sends(now time.Time) taskqueue.Sends {
	return func(site task.Site, class *taskqueue.ClassDemand) bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, told := range f.told[string(site)] {
			if now.Sub(told.at) > keepReport || told.report.GetPaused() != "" {
				continue
			}
			fits := func(shape *pb.FactoryShape) bool { return f.fits(site, shape, class) }
			if shapes := told.report.GetShapes(); len(shapes) == 0 || slices.ContainsFunc(shapes, fits) {
				return true
			}
		}
		return false
	}
}

// fits tells whether pilots of a shape may run a class, as far as it is known before they
// are there.
func (f *factories) fits(site task.Site, shape *pb.FactoryShape, class *taskqueue.ClassDemand) bool {
	pilot := matcher.Pilot{
		Site: site, Resources: taskpb.FromResources(shape.GetResources()), Features: shape.GetFeatures(),
		Arch: shape.GetArch(), OS: shape.GetOs(), Lifetime: shape.GetLifetime().AsDuration(),
	}
	pilot.Slots = pilot.Resources.Cores
	return class.Walltime <= pilot.Lifetime && f.compiler.MayRun(&pilot, class.Class, class.Refused)
}
