package taskqueue

import (
	"fmt"
	"slices"

	"github.com/pilotage-grid/pilotage/task"
)

// leasing opens, renews and ends the leases by which sites and pilots have tasks.
type leasing struct {
	*records
	life      *lifecycle
	catalogue *catalogue
}

// openLease begins a new lease for a site.
func (l *leasing) openLease(site *SiteRecord) *Lease {
	id := read(l.Meta().Next("lease", 1))
	lease := &Lease{
		ID:      task.LeaseID(id),
		Site:    site.Name,
		Term:    site.Term,
		Expires: l.Clock.Add(l.config.Lease.TTL),
		Granted: l.Wall,
	}
	l.leases.put(lease.ID, lease)
	return lease
}

// numberBeyond sees to it that no new lease gets a number that a site knows: a
// queue that was put back to a backup has forgotten which it gave. A number that is far
// ahead was never given.
func (l *leasing) numberBeyond(unknown []task.LeaseID) {
	if len(unknown) == 0 {
		return
	}
	next := task.LeaseID(read(l.Meta().Next("lease", 0)))
	after := next
	for _, id := range unknown {
		if id >= next && id-next < maxJump {
			after = max(after, id+1)
		}
	}
	if after > next {
		read(l.Meta().Next("lease", uint64(after-next)))
	}
}

// leasesOf returns the open leases of a site, by id, as this turn knows them.
func (l *leasing) leasesOf(site task.Site) []*Lease {
	return l.leases.of(read(l.Leases().OfSite(site)))
}

// fullLease returns an open lease with all its tasks.
func (l *leasing) fullLease(site *SiteRecord, lease *Lease) task.Lease {
	var ids []task.ID
	for _, s := range l.life.leased(lease) {
		ids = append(ids, s.ID)
	}
	return l.writeLease(site, lease, ids)
}

// writeLease puts a lease into the words of the master's protocol: the tasks
// with their descriptions, and every file they read, once.
func (l *leasing) writeLease(site *SiteRecord, lease *Lease, ids []task.ID) task.Lease {
	l.loadInputs(ids)
	out := task.Lease{ID: lease.ID, TTL: l.config.Lease.TTL, Tasks: make([]task.LeasedTask, 0, len(ids))}
	seen := make(map[task.LFN]struct{})
	for _, id := range ids {
		s, spec := l.tasks.held[id], l.specs.held[id]
		if spec == nil {
			end(fmt.Errorf("task %s has a state and no description: the store is damaged", id))
		}
		avoid := l.failedAt(s)
		out.Tasks = append(out.Tasks, task.LeasedTask{
			Task: *spec, Generation: s.Generation, Number: max(1, s.Number), Age: s.Seq, Blocked: s.Missing > 0,
			Avoid: l.catalogue.doubters(avoid, spec),
		})
		for _, in := range spec.Inputs {
			if _, again := seen[in.LFN]; !again {
				seen[in.LFN] = struct{}{}
				out.Files = append(out.Files, site.view(l.files.held[in.LFN], in.LFN))
			}
		}
	}
	return out
}

// told is about what a task takes in a hand-out.
func (l *leasing) told(spec *task.Task) int {
	bytes := 200 + spec.TextBytes()
	for _, in := range spec.Inputs {
		bytes += 64 + len(in.LFN)
		if f := l.files.held[in.LFN]; f != nil {
			for _, replica := range f.Replicas {
				bytes += len(replica.URL)
			}
		}
	}
	return bytes
}

// view is a file as a site gets to know it: with the replicas that it may
// read, those on its own storage element first, and without a digest that only another
// site has reported.
func (s *SiteRecord) view(f *FileRecord, name task.LFN) task.File {
	if f == nil {
		return task.File{LFN: name, Size: -1}
	}
	file := f.File
	if f.LearnedAt != "" && f.LearnedAt != s.Name {
		file.Digest = task.Digest{} // another site's word alone
	}
	file.Announced = slices.Clone(f.Announced)
	file.Replicas = nil
	for _, own := range []bool{true, false} {
		for _, replica := range f.Replicas {
			if (replica.Site == s.Name) == own && s.Reaches(replica.Site) {
				file.Replicas = append(file.Replicas, replica)
			}
		}
	}
	return file
}
