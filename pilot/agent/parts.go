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

// Place is what a registration names of the worker node.
type Place struct {
	DataURL string // where other pilots fetch files
	Walls   task.Walls
}

// Enrollment is a registered pilot as its parts see it, and what they tell it. The
// functions may be called from any goroutine; those that tell something, once the pilot
// works.
type Enrollment struct {
	Site     task.Site
	Pilot    task.PilotID
	Peer     task.PeerID
	Own      identity.MemberCertificate
	Verifier *identity.Verifier
	// Addresses are those of the pilot in the overlay.
	Addresses []string
	// Skew is how far this node's clock is before the queue's.
	Skew time.Duration
	// Settings are the site's of the moment.
	Settings func() task.SiteSettings
	// CheckPorts has other pilots connect to this one; its finding is named PortsCheck.
	CheckPorts func(context.Context) (string, error)
	Locator    fetch.Locator
	Homes      fetch.Homes
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
	Log     *slog.Logger
}

// Parts are what a pilot works with.
type Parts struct {
	Cache    Cache
	Fetcher  Fetcher
	Payloads Payloads
	Uploads  Uploads
	// Serve gives files to other pilots until its context ends.
	Serve func(context.Context) error
	// Scrub looks for cached files that have rotted, and for what others do in a cache
	// that is theirs as well, until its context ends; nil where neither can be.
	Scrub func(context.Context) error
	// Check looks whether the pilot can work here; nil where it always can.
	Check func(context.Context) []Finding
	// Observe tells how things are at the node by now, and why no work can be
	// taken at the moment; empty if it can. It is nil where nothing ever is to be told.
	Observe func() (now matcher.Conditions, stop string)
}

// Finding is one result of a pilot's self-check.
type Finding struct {
	What   string `json:"what"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// PortsCheck names the check that a site may do without.
const PortsCheck = "ports"

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
	// Find looks for a file by its name below the element and returns its URL; "" where
	// there is none of that size and content.
	Find(ctx context.Context, element, name string, size task.Bytes, digest task.Digest) (url string, err error)
	// Put copies a file under a name below the element and returns its URL. What
	// is perhaps there is looked for first: not every element may be overwritten.
	Put(ctx context.Context, element, name string, key task.FileKey, perhapsThere bool) (url string, err error)
}
