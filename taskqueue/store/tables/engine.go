// Package tables keeps a queue in one ordered map of keys to values: the tables
// of taskqueue.Store, their indexes and counts, and the checks of what was
// written, once for every place that can keep such a map.
package tables

// Engine keeps one ordered map, whose keys are compared as bytes.
type Engine interface {
	// Begin begins a transaction that sees what was committed last. Of those that
	// write there is one at a time; others run beside it and do not wait.
	Begin(write bool) (Transaction, error)
	Close() error
}

// Transaction reads and changes the map. Neither side changes what a call was given
// or has returned.
type Transaction interface {
	// Scan calls each with the rows of a span in order until it returns false.
	// Nothing else is done in the transaction meanwhile.
	Scan(span Span, each func(Row) (more bool, err error)) error
	Put(rows ...Row) error
	Delete(keys ...[]byte) error
	// Commit returns nil once all is durable. After an error nothing of it is kept.
	Commit() error
	// Rollback ends a transaction that was not committed.
	Rollback()
}

// Row is a key and its value.
type Row struct{ Key, Value []byte }

// Span is what lies between two keys: From is in it, Before is not; nil has no
// bound. Down gives the highest key first.
type Span struct {
	From, Before []byte
	Down         bool
}

// Table names a table. It is the first byte of its keys.
type Table uint8

// The tables. Their numbers are stored: a new one comes at the end.
const (
	head Table = iota // the one row that is no block, see total
	values
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
	workflowsByOwner
	workflowsByOwnerAndName
	foreignCopies
	usage
	audit
	revocationsByPilot
	workflowsToLookAt
)

var tableNames = [...]string{
	"head", "values", "counters", "workflows", "workflows by age", "workflows by name", "workflows by key",
	"names", "descriptions", "runs", "runs by workflow", "READY runs", "READY runs in order", "runs in backoff", "LEASED runs", "memos", "READY counts",
	"files", "announced", "uses", "uses by reader", "classes", "garbage", "garbage by age",
	"attempts", "running attempts", "logs", "leases", "leases by site", "leases by expiry", "leases by pilot", "revocations",
	"sites", "pilots", "pilots by state", "pilots by peer", "grants", "workflows by owner", "workflows by owner and name", "foreign copies", "usage", "audit",
	"revocations by pilot", "workflows to look at",
}

func (t Table) String() string {
	if int(t) < len(tableNames) {
		return tableNames[t]
	}
	return "of a newer release"
}
