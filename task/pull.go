package task

import "time"

// Pull is what a pilot tells the queue where the site has no master to speak
// for it (modes centralized and isolated): a Sync of a site of one, with what
// the queue needs to match tasks to it. Sync.Leases lists the pilot's leases,
// Sync.Term is the site's term while the pilot is master of the overlay and
// zero otherwise.
type Pull struct {
	Sync
	Self    Puller
	Places  Places
	Holding []Holding
	Cache   CacheDelta
}

// Puller describes a pilot as requirements and ranks see it; what the queue
// knows from the registration is left out.
type Puller struct {
	Arch     string
	OS       string
	Load     float64
	Lifetime time.Duration
	// CoreSpeed is of one core, in GHz; 0 when not known.
	CoreSpeed float64
	// FreeCores are not in use by payloads; CPUBound and IOBound count those
	// that say what limits them.
	FreeCores, CPUBound, IOBound int
}

// Places are what a pilot can take at the moment.
type Places struct {
	Free      Resources // not in use
	FreeSlots int       // for tasks that start at once
	Prefill   int       // further tasks that it may be given early
	Ending    Resources // the most that the end of one task frees
}

// Holding is a task that a pilot has in hand.
type Holding struct {
	Task    ID
	Lease   LeaseID
	Started bool // its payload was started
}

// CacheDelta tells which files came into a pilot's cache or left it since the
// summary of version Base; Base 0 stands for an empty cache.
type CacheDelta struct {
	Base, Version uint64
	Added         []FilePrint
	Removed       []FilePrint
	// Partial tells that the cache holds more files than a summary may name.
	Partial bool
}

// MaxPrints bounds the files that a pilot's summary names: 512 KiB of memory
// and of one message.
const MaxPrints = 65_536

// PullReply is the queue's answer to a Pull.
type PullReply struct {
	SyncReply
	// CacheVersion is that of the summary that the queue has by now; another
	// one than the pilot's asks for a whole summary.
	CacheVersion uint64
	// Deposed tells a pilot that says it is master that the queue has another one in
	// office, or another term.
	Deposed bool
}

// FilePrint is a file's key in 64 bits, for summaries: two files of one site
// share a print so seldom that it only costs a better match.
type FilePrint uint64

// Print returns the key's print: FNV-1a, its bits mixed once more so that
// keys that differ in the last character differ everywhere.
func (k FileKey) Print() FilePrint {
	h := uint64(14695981039346656037)
	for i := 0; i < len(k); i++ {
		h = (h ^ uint64(k[i])) * 1099511628211
	}
	h ^= h >> 32
	h *= 0xd6e8feb86659fd93
	h ^= h >> 32
	return FilePrint(h)
}
