package server

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
)

// factories keeps what those who start pilots tell of themselves, while they do. It is
// safe for concurrent use.
type factories struct {
	mu   sync.Mutex
	told map[string]map[string]toldReport // by site and name
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
)

// tell keeps a factory's newest report.
func (f *factories) tell(site string, report *pb.FactoryReport, now time.Time) error {
	report.Nodes = report.GetNodes()[:min(mostBadNodes, len(report.GetNodes()))]
	if n := proto.Size(report); n > mostReport {
		return invalid("report of factory %s: %s, at most %s are kept", task.Brief(report.GetName()), task.Bytes(n), task.Bytes(mostReport))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	of := f.told[site]
	if of == nil {
		of = make(map[string]toldReport)
		if f.told == nil {
			f.told = make(map[string]map[string]toldReport)
		}
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
		reports = append(reports, told.report)
	}
	slices.SortFunc(reports, func(a, b *pb.FactoryReport) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return reports
}
