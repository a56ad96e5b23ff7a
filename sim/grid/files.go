package grid

import (
	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	"github.com/pilotage-grid/pilotage/sim"
	"github.com/pilotage-grid/pilotage/sim/staging"
	"github.com/pilotage-grid/pilotage/task"
)

func newFiles(n *node) (*staging.Files, error) {
	return staging.New(staging.Config{
		Self: n.holder(), Site: n.site.Name, Capacity: n.Cache, Random: sim.Random(n.config.Seed, "fetch "+string(n.peer)),
		Clock: n.world, Peers: others{n}, Storage: elements{n}, Remote: func() bool { return true }, Patient: true,
		Changed: func(keys []task.FileKey) { n.stepWorker(worker.CacheChanged{Keys: keys, Cache: n.files.Report()}) },
		BadCopy: func(copied task.LostFile) { n.stepWorker(worker.BadCopy{Copy: copied}) },
	})
}

func (n *node) holder() cache.Holder {
	return cache.Holder{Peer: n.peer, DataURL: "https://" + string(n.peer)}
}

// newDesk is the home of all files of a site. In the product each file has its own; they
// share no state between files, so one does for all here.
func newDesk(s *site) *staging.Desk {
	return staging.NewDesk(s.world, func(answer cache.Answer) {
		n := s.peers[answer.To]
		s.timeline.After(s.Latency, func() {
			n.files.Tell(cache.HomeAnswered{Ask: answer.Number, Key: answer.Key, Verdict: answer.Verdict, Holders: answer.Holders})
		})
	})
}

// others are the other pilots of a node's site.
type others struct{ *node }

// Locate finds who holds files, in the order of pilots.
func (o others) Locate(a cache.Locate) {
	o.timeline.After(2*o.site.Latency, func() {
		found := make(map[task.FileKey][]cache.Holder)
		for _, key := range a.Keys {
			for _, n := range o.site.nodes {
				if n != o.node && n.alive && n.files.Cached.Contains(key) {
					found[key] = append(found[key], n.holder())
				}
			}
		}
		o.files.Tell(cache.Located{Keys: a.Keys, Holders: found})
	})
}

// TellHome brings a pilot's word to the desk.
func (o others) TellHome(event cache.GrantEvent) {
	o.timeline.After(o.site.Latency, func() { o.site.desk.Tell(event) })
}

// Read fetches a file in equal parts from all that still have it.
func (o others) Read(t *staging.Transfer, holders []cache.Holder) {
	var sources []*node
	done := cache.TransferDone{}
	for _, h := range holders {
		n := o.peers[h.Peer]
		switch {
		case !n.alive:
			done.Faults = append(done.Faults, cache.SourceFault{Peer: h.Peer, Fault: cache.Unreachable})
		case !n.files.Cached.Contains(t.File.Key()):
			done.Faults = append(done.Faults, cache.SourceFault{Peer: h.Peer, Fault: cache.Gone})
		default:
			sources = append(sources, n)
		}
	}
	o.timeline.After(2*o.site.Latency, func() {
		if !t.Live() {
			return
		}
		if len(sources) == 0 {
			t.End(done)
			return
		}
		left := len(sources)
		var flows []*sim.Flow
		for _, n := range sources {
			part := float64(t.File.Size) / float64(len(sources))
			o.sums.PeerBytes += part
			flows = append(flows, o.network.Send(part, []sim.LinkID{n.up, o.down}, func() {
				if left--; left > 0 {
					return
				}
				done.Arrived, done.From = true, sources[0].peer
				o.sums.PeerTransfers++
				t.End(done)
			}))
		}
		t.Stop = func() {
			for _, flow := range flows {
				o.network.Stop(flow)
			}
		}
	})
}

// elements are the storage elements of all sites, as a node reaches them.
type elements struct{ *node }

func (e elements) Read(t *staging.Transfer, replica task.Replica) {
	owner := e.site
	route := []sim.LinkID{e.down}
	for _, s := range e.sites {
		if s.Name == replica.Site && s != e.site {
			owner, route = s, append(route, s.wide, e.site.wide)
		}
	}
	e.timeline.After(2*e.site.Latency, func() {
		if t.Live() {
			r := owner.storage.transfer(float64(t.File.Size), route, func() { t.End(cache.TransferDone{Arrived: true}) })
			t.Stop = func() { owner.storage.stop(r) }
		}
	})
}

// Put copies an output to the site's own element.
func (e elements) Put(output message.Output, done func(url string)) {
	e.site.storage.transfer(float64(output.Size), []sim.LinkID{e.up}, func() {
		if e.alive {
			e.sums.Uploads++
			done("file:///" + string(e.site.Name) + "/" + output.Attempt.Suffix() + "/" + output.LFN.Local())
		}
	})
}

// copyIn makes a replica for the site's replica policies, as inputs of tasks are
// fetched.
func (n *node) copyIn(file task.File) {
	n.files.CopyIn(file, func(done worker.CopiedIn) {
		if done.Copied {
			n.sums.Replicas++
		}
		n.stepWorker(done)
	})
}
