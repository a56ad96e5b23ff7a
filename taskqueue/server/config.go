package server

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/pilotage-grid/pilotage/identity/issuer"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/serving"
)

// Default addresses (INTERFACE, "Places and names").
const (
	DefaultListen     = ":7420"
	DefaultListenHTTP = "127.0.0.1:7421"
)

// StoreKind names a storage engine.
type StoreKind string

// Storage engines.
const (
	StoreSQLite StoreKind = "sqlite" // durable, the default
	StoreMemory StoreKind = "mem"    // forgets everything at its end: for tests and trials
)

// Config says how a queue runs. Only DataDir is needed.
type Config struct {
	// DataDir holds the database, ca/, access/ and run.json. It is made, for
	// its owner only, if it is not there.
	DataDir string
	Store   StoreKind
	// Listen is HOST:PORT of gRPC; an empty host means every interface, port
	// 0 any free one.
	Listen string
	// ListenHTTP is HOST:PORT of the live page, /metrics and /healthz, over TLS.
	ListenHTTP string
	Web        WebConfig
	// Advertise lists HOST or HOST:PORT under which pilots and clients reach
	// gRPC, as access files name them; none means the listener's host, or the
	// addresses of this machine's interfaces.
	Advertise []string
	// Hosts are further names and addresses for the server's certificate.
	Hosts []string
	// Descriptors is how many files and connections may be open; 0: what the system
	// allows this process.
	Descriptors int
	// Issuers are those whose tokens are taken beside the queue's own.
	Issuers issuer.Config
	// Rules of the queue; zero means taskqueue.DefaultConfig.
	Rules  taskqueue.Config
	Timing Timing
	Log    *slog.Logger // nil: slog.Default
	// Ready, if set, is called once when calls are taken, with one address of
	// each listener that can be dialled.
	Ready func(grpcAddress, httpAddress string)
	// Deleter, if set, is given the copies of losers to delete.
	Deleter Deleter
	// Finder, if set, looks for what pilots may have stored without a word, when the
	// last one of their site is gone and when a workflow is over.
	Finder Finder
}

// WebConfig is for those who look by HTTPS.
type WebConfig struct {
	// Certificate and Key are PEM files for ListenHTTP, read again when they change;
	// without them the VO's own authority issues the certificate.
	Certificate, Key string
	// Version is of the program, for the metrics.
	Version string
}

// Finder looks for files on storage elements.
type Finder interface {
	// Find returns the URL of what has a name below the storage element; the error
	// is ErrNotThere where there is nothing of that size and content.
	Find(ctx context.Context, element, name string, size task.Bytes, digest task.Digest) (url string, err error)
	// List returns names of what is in a folder below the storage element, at most
	// limit, those of folders with a slash at their end; the error is ErrNotThere
	// where there is no such folder, and ErrNotListed where the storage element
	// cannot tell.
	List(ctx context.Context, element, folder string, limit int) (names []string, err error)
}

// What a Finder answers when the storage element does, and
var (
	ErrNotThere  = errors.New("the storage element has no such copy") // or no right one
	ErrNotListed = errors.New("the storage element does not list its folders")
)

// Deleter removes copies of files from storage elements.
type Deleter interface {
	// Delete removes what has a name below the storage element with the URL;
	// what is not there is no error.
	Delete(ctx context.Context, element, name string) error
}

// Timing holds the server's own times; a zero one means its default.
type Timing struct {
	// ClockTick is how often the service clock advances: finely enough for
	// the time of silence after which a mastership may be claimed.
	ClockTick time.Duration
	// Persist is how often clock, signs of life and counts are written: what
	// a crash may set the clock back.
	Persist time.Duration
	// Holds bound how long and how often calls of masters and pilots wait.
	Holds serving.Holds
	// MatchTick is how often sites are looked after at which the queue matches
	// tasks.
	MatchTick time.Duration
	// WatchPause is the shortest time between two messages of a watch.
	WatchPause time.Duration
	// CloseAudit is how often old records of the audit log are looked for, to be moved
	// from the store to files.
	CloseAudit time.Duration
	// Garbage is the time between two rounds of deletions.
	Garbage time.Duration
	// RelaySilence is how long nobody of a site may be heard while a file of its
	// caches is waited for.
	RelaySilence time.Duration
	// RelayPatience is how long nothing of a file may come, or be taken: 1 min.
	RelayPatience time.Duration
	// StopGrace is how long running calls may take after the end was asked.
	StopGrace time.Duration
	// Stranger is how long a connection lasts that shows no access.
	Stranger time.Duration
	// AccessLife is how long the access files of a queue's folder are valid.
	AccessLife time.Duration
}

func (t Timing) withDefaults() Timing {
	for _, d := range []struct {
		value *time.Duration
		or    time.Duration
	}{
		{&t.ClockTick, 250 * time.Millisecond},
		{&t.Persist, time.Second},
		{&t.Holds.Sync, serving.DefaultHolds.Sync},
		{&t.Holds.Pull, serving.DefaultHolds.Pull},
		{&t.Holds.Pause, serving.DefaultHolds.Pause},
		{&t.MatchTick, 500 * time.Millisecond},
		{&t.WatchPause, 100 * time.Millisecond},
		{&t.CloseAudit, time.Minute},
		{&t.Garbage, 30 * time.Second},
		{&t.RelaySilence, 20 * time.Second},
		{&t.RelayPatience, time.Minute},
		{&t.StopGrace, 3 * time.Second},
		{&t.Stranger, strangerTime},
		{&t.AccessLife, 365 * 24 * time.Hour},
	} {
		if *d.value <= 0 {
			*d.value = d.or
		}
	}
	return t
}

func (c Config) withDefaults() Config {
	if c.Store == "" {
		c.Store = StoreSQLite
	}
	if c.Listen == "" {
		c.Listen = DefaultListen
	}
	if c.ListenHTTP == "" {
		c.ListenHTTP = DefaultListenHTTP
	}
	if c.Rules == (taskqueue.Config{}) {
		c.Rules = taskqueue.DefaultConfig()
	}
	if c.Finder != nil && c.Rules.Workflow.LookFor == 0 {
		c.Rules.Workflow.LookFor = time.Minute // it may take a storage element so long to answer again
	}
	if c.Descriptors <= 0 {
		c.Descriptors = descriptors()
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	c.Timing = c.Timing.withDefaults()
	return c
}
