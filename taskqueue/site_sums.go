package taskqueue

import (
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// addOutcome adds an accepted outcome to a site's sums. Of a success the run
// time is kept too, among the newest sample.
func (s *SiteRecord) addOutcome(o *task.Outcome, sample int) {
	sums := &s.Sums
	if o.OK {
		sums.Tasks++
	} else {
		sums.Failures++
	}
	if o.Failure == task.PilotLost {
		sums.Wasted += max(0, o.Run)
	} else {
		sums.Busy += max(0, o.Run)
	}
	for i := range o.Reads {
		read := &o.Reads[i]
		into := &sums.External
		if read.Intermediate {
			into = &sums.Intermediate
		}
		if int(read.Source) < len(into.Reads) {
			into.Reads[read.Source]++
			into.Bytes[read.Source] += uint64(max(0, read.Size))
		}
	}
	if o.Delay >= 0 {
		sums.addDelay(o.Delay)
	}
	if sample > 0 {
		s.Runs = append(s.Runs, max(0, o.Run))
		s.Runs = s.Runs[max(0, len(s.Runs)-sample):]
	}
}

// Reads adds up the reads of all files.
func (s *SiteSums) Reads() SourceSums {
	all := s.Intermediate
	for i := range all.Reads {
		all.Reads[i] += s.External.Reads[i]
		all.Bytes[i] += s.External.Bytes[i]
	}
	return all
}

func (s *SiteSums) addDelay(delay time.Duration) {
	if len(s.DelayBucket) != len(DelayBuckets)+1 {
		s.DelayBucket = append(s.DelayBucket, make([]uint64, len(DelayBuckets)+1-len(s.DelayBucket))...)
	}
	bucket, _ := slices.BinarySearch(DelayBuckets, delay.Seconds())
	s.DelayBucket[bucket]++
	s.DelayCount++
	s.DelaySum += delay
}

// medianRun returns the median run time of a site's newest outcomes; known is
// false while they are too few.
func (s *SiteRecord) medianRun(knownAfter int) (median time.Duration, known bool) {
	if len(s.Runs) < max(1, knownAfter) {
		return 0, false
	}
	runs := slices.Clone(s.Runs)
	slices.Sort(runs)
	return runs[len(runs)/2], true
}

// slots is how many payloads a site can run: as its master reports, or as its
// pilots declared when they registered, before they have joined the overlay,
// less those of pilots that take no work. It can run none while no pilot that its
// master knows takes work: the master would give all of it back.
func (s *SiteRecord) slots() int {
	if c := &s.Capacity; c.Stopped > 0 && c.Stopped >= c.Pilots {
		return 0
	}
	return max(s.Capacity.Slots, s.Registered-s.Capacity.StoppedSlots)
}

// takeReport adds a report of storage reads and replicas, each report once.
func (m *members) takeReport(site *SiteRecord, term task.Term, report task.SiteReport) {
	if report.Seq == 0 || site.ReportTerm == term && report.Seq <= site.ReportSeq {
		return
	}
	site.ReportTerm, site.ReportSeq = term, report.Seq
	site.Sums.Replicas.Add(report.Replicas)
	m.sites.touch(site.Name)
	m.addReads(report.SEReads)
}

// addReads adds reads to the sums of those who own the storage elements.
func (m *members) addReads(reads []task.SERead) {
	if len(reads) == 0 {
		return
	}
	m.sites.loadAll()
	for _, read := range reads {
		owner := m.sites.held[read.Owner]
		if owner == nil {
			continue // a storage element that was never added, or not any more
		}
		owner.Sums.SEReads += read.Files
		owner.Sums.SEReadBytes += uint64(max(0, read.Bytes))
		m.sites.touch(owner.Name)
	}
}

// CountRequests adds queue requests of a site's pilots, by method, and
// refusals of stale terms. The server calls it now and then with what it has
// counted.
func (r *Rules) CountRequests(t *Turn, site task.Site, byMethod map[string]uint64, staleTerms uint64) (err error) {
	q := r.open(t)
	defer q.close(&err)
	record := q.sites.need(site)
	if record.Sums.Methods == nil {
		record.Sums.Methods = make(map[string]uint64, len(byMethod))
	}
	for method, n := range byMethod {
		record.Sums.Methods[method] += n
		record.Sums.Requests += n
	}
	record.Sums.StaleTerms += staleTerms
	q.sites.touch(site)

	return nil
}
