// Package tables keeps a queue in ordered tables of keys and values: the
// tables of taskqueue.Store, their indexes and counts, written once for every
// place that can keep such tables.
package tables

import "context"

// Engine keeps ordered tables. An Update that returned nil is durable; Views
// see a committed state. What taskqueue.Store says of contexts, of functions
// that are called again, and of Close holds here, too.
type Engine interface {
	View(ctx context.Context, read func(Rows) error) error
	Update(ctx context.Context, write func(Rows) error) error
	Close() error
}

// Rows are the tables within one transaction. Keys are compared as bytes.
// Neither side changes what a call was given or has returned.
type Rows interface {
	// Get returns the values of keys, in their order; nil for one that is absent.
	Get(table Table, keys ...[]byte) ([][]byte, error)
	Put(table Table, rows ...Row) error
	Delete(table Table, keys ...[]byte) error
	// Scan calls each with the rows of a span in order until it returns false.
	// It may call Get, Put and Delete for other tables, and no Scan of the same.
	Scan(table Table, span Span, each func(Row) (more bool, err error)) error
}

// Row is one row of a table. No value is nil.
type Row struct{ Key, Value []byte }

// Span is what lies between two keys: From is in it, Before is not; nil has no
// bound. Down gives the highest key first.
type Span struct {
	From, Before []byte
	Down         bool
}

// Table names a table.
type Table uint8

// The tables. Their names are stored; see Names.
const (
	values Table = iota
	counters
	workflows
	workflowsByAge
	workflowsByName
	workflowsByKey
	names
	descriptions
	runs
	runsByWorkflow
	runsReady
	runsReadyInOrder
	runsInBackoff
	runsLeased
	memos
	readyCounts
	files
	announced
	uses
	usesByReader
	classes
	garbage
	garbageByAge
	attempts
	attemptsRunning
	logs
	leases
	leasesBySite
	leasesByExpiry
	leasesByPilot
	revocations
	sites
	pilots
	pilotsByState
	pilotsByPeer
	grants
	totals
	tablesEnd
)

// Names are the names of all tables, by Table.
var Names = [tablesEnd]string{
	"vals", "counters", "workflows", "workflows_by_age", "workflows_by_name", "workflows_by_key",
	"names", "descriptions", "runs", "runs_by_workflow", "runs_ready", "runs_ready_in_order", "runs_in_backoff", "runs_leased", "memos", "ready_counts",
	"files", "announced", "uses", "uses_by_reader", "classes", "garbage", "garbage_by_age",
	"attempts", "attempts_running", "logs", "leases", "leases_by_site", "leases_by_expiry", "leases_by_pilot", "revocations",
	"sites", "pilots", "pilots_by_state", "pilots_by_peer", "grants", "totals",
}
