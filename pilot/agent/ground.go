package agent

import (
	"context"
	"log/slog"
	"time"

	"github.com/pilotage-grid/pilotage/cache/disk"
	"github.com/pilotage-grid/pilotage/cache/fetch"
	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/exec"
	"github.com/pilotage-grid/pilotage/task"
)

// Ground is what a pilot stands on at its node: room for files and payloads,
// a server for other pilots, and the way to storage elements. In production
// that is the worker node; many pilots in one process have something smaller.
// The calls come in the order of the methods, Observe any number of times.
type Ground interface {
	// Prepare completes resources and capacity where the configuration leaves
	// them to the node, and says what the registration has to name.
	Prepare(config *Config) (Footing, error)
	// Occupy opens everything for a registered pilot.
	Occupy(o Occupant) (Equipment, error)
	// Fit looks whether the pilot can work here; no findings are well.
	Fit(ctx context.Context) []Finding
	// Observe tells how things are at the node by now, and why no work can be
	// taken at the moment; empty if it can.
	Observe() (now matcher.Conditions, stop string)
	// Close gives everything up.
	Close() error
}

// Footing is what a registration names of a ground.
type Footing struct {
	DataURL string // where other pilots fetch files
	Walls   task.Walls
}

// Occupant is a pilot as its ground sees it. The functions may be called from
// any goroutine.
type Occupant struct {
	Site     task.Site
	Pilot    task.PilotID
	Peer     task.PeerID
	Own      identity.MemberCertificate
	Verifier *identity.Verifier
	// Cached and Evicted are told of files that came into the cache by
	// fetching, and of files that left it.
	Cached  func(key task.FileKey)
	Evicted func(keys []task.FileKey)
	// Brought is told of files that another pilot of the node has brought into a cache
	// that both have, or has left there for this one to keep.
	Brought func(files []disk.Entry)
	// BadCopy is told of copies that a storage element does not have, or has with
	// other bytes.
	BadCopy func(copy task.LostFile)
	Locator fetch.Locator
	Homes   fetch.Homes
	// Settings are the site's of the moment.
	Settings func() task.SiteSettings
	// Skew is how far this node's clock is before the queue's.
	Skew time.Duration
	// Listens are the TCP ports of the pilot.
	Listens []string
	// Ports has other pilots connect to this one.
	Ports func(context.Context) (string, error)
	Log   *slog.Logger
}

// Equipment is what a pilot works with.
type Equipment struct {
	Cache    Cache
	Fetcher  Fetcher
	Payloads Payloads
	Uploads  Uploads
	// Serve gives files to other pilots until its context ends.
	Serve func(context.Context) error
	// Scrub looks for cached files that have rotted, and for what others do in a cache
	// that is theirs as well, until its context ends; nil where neither can be.
	Scrub func(context.Context) error
}

// Cache keeps files; package disk has it on a disk.
type Cache interface {
	Lookup(key task.FileKey) (disk.Entry, bool)
	Entries() []disk.Entry
	Usage() disk.Usage
	// Adopt takes a payload's output out of its work folder, to stay until LetGo.
	Adopt(ctx context.Context, folder, name string, exec bool, outputs ...task.OutputID) (disk.Entry, error)
	// Keep has a file stay until LetGo is told of the same output.
	Keep(key task.FileKey, output task.OutputID) error
	LetGo(key task.FileKey, output task.OutputID)
	Drop(key task.FileKey) error
	// Evict removes a file unless it is pinned or must stay.
	Evict(key task.FileKey) bool
}

// Fetcher brings inputs into the cache; package fetch has it for peers and
// storage elements.
type Fetcher interface {
	Run(ctx context.Context) error
	Stage(ctx context.Context, files []task.File) ([]fetch.Staged, error)
	SEReads() []task.SERead
}

// Payloads runs attempts; package exec runs them as processes.
type Payloads interface {
	Run(ctx context.Context, spec exec.Spec, started func(at time.Time, process int)) exec.Result
	Release(folder string) error
	DropLogs(attempt task.AttemptID)
}

// Uploads copies cached files to a storage element.
type Uploads interface {
	// Find looks for a file by its name below the element and returns its URL; the
	// error is storage.ErrNotFound where there is none of that size and content.
	Find(ctx context.Context, element, name string, size task.Bytes, digest task.Digest) (url string, err error)
	// Put copies a file under a name below the element and returns its URL. What
	// is perhaps there is looked for first: not every element may be overwritten.
	Put(ctx context.Context, element, name string, key task.FileKey, perhapsThere bool) (url string, err error)
}

// Observer watches a pilot from outside. It is called from the pilot's loop
// and must not block.
type Observer interface {
	// RoundDone tells of the end of a broadcast of the task list that this
	// pilot, as master, began.
	RoundDone(Round)
	// InOffice tells that this pilot took the mastership.
	InOffice(term task.Term)
}

// Round is a broadcast of the task list that is over.
type Round struct {
	Took              time.Duration
	Answered, Members int // pilots
	Peers             int // that one pilot sent it to, at most
}

// nobody observes.
type nobody struct{}

// RoundDone satisfies Observer.
func (nobody) RoundDone(Round) {}

// InOffice satisfies Observer.
func (nobody) InOffice(task.Term) {}
