package dht

import (
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// records are the locations that this member keeps for the site: soft state
// with one writer per (file, holder); the highest sequence number wins, and a
// withdrawn entry stays as a tombstone so that a late announcement cannot
// bring it back.
type records struct {
	ttl       time.Duration
	byFile    map[task.FileKey][]stored
	nextSweep time.Time
}

type stored struct {
	holder  task.PeerID
	dataURL string
	seq     uint64
	gone    bool
	expires time.Time
}

// sweepEvery is how often expired locations are cleared away.
const sweepEvery = time.Minute

func (r *records) init(config Config) {
	r.ttl = config.LocationTTL
	r.byFile = make(map[task.FileKey][]stored)
}

func (r *records) put(now time.Time, batch []Record) {
	if r.nextSweep.IsZero() {
		r.nextSweep = now.Add(sweepEvery)
	}
	for _, record := range batch {
		entry := stored{
			holder: record.Holder, dataURL: record.DataURL, seq: record.Seq, gone: record.Gone,
			expires: now.Add(min(r.ttl, record.TTL)),
		}
		if record.Gone {
			entry.expires = now.Add(2 * r.ttl)
		}
		list := r.byFile[record.File]
		i := slices.IndexFunc(list, func(s stored) bool { return s.holder == record.Holder })
		switch {
		case i < 0:
			r.byFile[record.File] = append(list, entry)
		case list[i].seq < record.Seq, list[i].seq == record.Seq && list[i].expires.Before(entry.expires):
			list[i] = entry
		}
	}
}

func (r *records) find(now time.Time, files []task.FileKey) []Record {
	var found []Record
	for _, file := range files {
		for _, s := range r.byFile[file] {
			if !s.gone && now.Before(s.expires) {
				found = append(found, s.record(now, file))
			}
		}
	}
	return found
}

func (s stored) record(now time.Time, file task.FileKey) Record {
	return Record{File: file, Holder: s.holder, DataURL: s.dataURL, Seq: s.seq, Gone: s.gone, TTL: s.expires.Sub(now)}
}

// all returns everything kept, tombstones included, by file and holder.
func (r *records) all(now time.Time) []Record {
	var all []Record
	for file, list := range r.byFile {
		for _, s := range list {
			if now.Before(s.expires) {
				all = append(all, s.record(now, file))
			}
		}
	}
	slices.SortFunc(all, func(a, b Record) int {
		if a.File != b.File {
			return compare(a.File < b.File)
		}
		return compare(a.Holder < b.Holder)
	})
	return all
}

// dropHolder removes a dead member's locations.
func (r *records) dropHolder(peer task.PeerID) {
	for file, list := range r.byFile {
		kept := slices.DeleteFunc(list, func(s stored) bool { return s.holder == peer })
		if len(kept) == 0 {
			delete(r.byFile, file)
			continue
		}
		r.byFile[file] = kept
	}
}

func (r *records) sweep(now time.Time) {
	if r.nextSweep.IsZero() || now.Before(r.nextSweep) {
		return
	}
	r.nextSweep = now.Add(sweepEvery)
	for file, list := range r.byFile {
		kept := slices.DeleteFunc(list, func(s stored) bool { return !now.Before(s.expires) })
		if len(kept) == 0 {
			delete(r.byFile, file)
			continue
		}
		r.byFile[file] = kept
	}
}

func (r *records) deadline() time.Time {
	if len(r.byFile) == 0 {
		return time.Time{}
	}
	return r.nextSweep
}
