package dht

import (
	"cmp"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// records are the locations that this member keeps for the site: soft state
// with one writer per (file, holder); the highest sequence number wins, and a
// withdrawn entry stays as a tombstone so that a late announcement cannot
// bring it back. What others say of a holder counts while it has said nothing
// itself, and that it has withdrawn a file is nobody else's to say: it would be
// the way to hide what a site has.
type records struct {
	ttl       time.Duration
	most      int // holders of one file in an answer
	byFile    map[task.FileKey][]stored
	hidden    map[task.PeerID]time.Time // holders that are gone, since when
	nextSweep time.Time
}

type stored struct {
	holder  task.PeerID
	dataURL string
	seq     uint64
	gone    bool
	own     bool // the holder's own word
	expires time.Time
}

const (
	// sweepEvery is how often expired locations are cleared away.
	sweepEvery = time.Minute
	// maxFound bounds the locations in one answer, well within what a message
	// carries. Only a question for more files than this overlay ever asks at
	// once is cut short.
	maxFound = maxFind * 32
	// underWay is how long a record may have been on its way, which its age leaves out.
	underWay = time.Second
)

func (r *records) init(config Config) {
	r.ttl, r.most = config.Locations.TTL, config.Locations.HoldersMost
	r.byFile = make(map[task.FileKey][]stored)
	r.hidden = make(map[task.PeerID]time.Time)
}

// put takes what a member writes: its own locations, or others' that it hands over.
func (r *records) put(now time.Time, from task.PeerID, batch []Record) {
	if len(batch) > 0 && len(r.byFile) == 0 {
		r.nextSweep = now.Add(sweepEvery)
	}
	for _, record := range batch {
		entry := stored{
			holder: record.Holder, dataURL: record.DataURL, seq: record.Seq, gone: record.Gone, own: record.Holder == from,
			expires: now.Add(min(r.ttl, record.TTL)),
		}
		if entry.gone && !entry.own {
			continue
		}
		if record.Gone {
			entry.expires = now.Add(2 * r.ttl)
		}
		list := r.byFile[record.File]
		i := slices.IndexFunc(list, func(s stored) bool { return s.holder == record.Holder })
		switch {
		case i < 0:
			r.byFile[record.File] = append(list, entry)
		case list[i].own != entry.own && now.Before(list[i].expires):
			if entry.own {
				list[i] = entry
			}
		case list[i].seq < record.Seq, list[i].seq == record.Seq && list[i].gone == record.Gone && list[i].expires.Before(entry.expires):
			list[i] = entry
		}
	}
}

// find returns the live locations of files, and those that were withdrawn: others
// may still have them. Of many holders of one file the asker gets some, and another
// asker others.
func (r *records) find(now time.Time, asker task.PeerID, files []task.FileKey) []Record {
	var found []Record
	for _, file := range files {
		if len(found) >= maxFound {
			break
		}
		list := r.byFile[file]
		start := 0
		if len(list) > r.most {
			start = int(spread(asker, file) % uint64(len(list)))
		}
		named := 0
		for i := range list {
			s := list[(start+i)%len(list)]
			if named < r.most && r.known(now, s) {
				named++
				found = append(found, s.record(now, file))
			}
		}
	}
	return found
}

func (r *records) known(now time.Time, s stored) bool {
	return now.Before(s.expires) && !r.hides(s.holder, s.expires.Add(-r.ttl))
}

// spread draws the same number again for the same asker and file, and most
// likely another one for others.
func spread(asker task.PeerID, file task.FileKey) uint64 {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(asker)) // never fails
	_, _ = hash.Write([]byte(file))
	return hash.Sum64()
}

func (s stored) record(now time.Time, file task.FileKey) Record {
	return Record{File: file, Holder: s.holder, DataURL: s.dataURL, Seq: s.seq, Gone: s.gone, TTL: s.expires.Sub(now)}
}

// of returns what is kept of a file, tombstones included.
func (r *records) of(now time.Time, file task.FileKey) (kept []Record) {
	for _, s := range r.byFile[file] {
		if r.known(now, s) {
			kept = append(kept, s.record(now, file))
		}
	}
	return kept
}

func byFileAndHolder(a, b Record) int {
	return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Holder, b.Holder))
}

// hide keeps a dead member's locations to itself, until they expire or the
// member turns out to live: then they count again at once.
func (r *records) hide(now time.Time, holder task.PeerID) { r.hidden[holder] = now }

func (r *records) show(holder task.PeerID) { delete(r.hidden, holder) }

func (r *records) isHidden(holder task.PeerID) bool {
	_, hidden := r.hidden[holder]
	return hidden
}

// hides tells whether a record does not count because its holder was gone after it
// wrote that. What it has written since shows that it lives, or lived longer than was
// thought here, as in another part of a site that was cut in two.
func (r *records) hides(holder task.PeerID, written time.Time) bool {
	since, hidden := r.hidden[holder]
	return hidden && written.Before(since.Add(underWay))
}

// sweep clears away what has expired.
func (r *records) sweep(now time.Time) {
	if len(r.byFile) == 0 && len(r.hidden) == 0 || now.Before(r.nextSweep) {
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
	maps.DeleteFunc(r.hidden, func(_ task.PeerID, since time.Time) bool { return now.Sub(since) > 2*r.ttl })
}

func (r *records) deadline() time.Time {
	if len(r.byFile) == 0 {
		return time.Time{}
	}
	return r.nextSweep
}
