package taskqueue

import (
	"context"
	"errors"

	"github.com/pilotage-grid/pilotage/task"
)

// Store keeps the queue. An Update that returned nil is durable; concurrent
// Updates may be committed together. The function may be called more than
// once and must have no effect but through its Tx. Views see a committed
// state, also while an Update runs. An Update within an Update would wait for
// itself for ever.
//
// A context that ends before the function was called gives the context's
// error and changes nothing; later it is not looked at, so that the answer is
// never in doubt. An Update also fails when a write of its Tx failed and the
// function kept that to itself.
type Store interface {
	View(ctx context.Context, read func(Tx) error) error
	Update(ctx context.Context, write func(Tx) error) error
	// Close waits for what runs; what comes later gets ErrClosed.
	Close() error
}

var (
	// ErrReadOnly is returned by writes within a View.
	ErrReadOnly = errors.New("the transaction is read-only")
	// ErrTxOver is returned to a function that kept its Tx beyond its end.
	ErrTxOver = errors.New("the transaction is over")
	// ErrClosed is returned by a store that was closed.
	ErrClosed = errors.New("the store is closed")
	// ErrDiskFull tells that the store has no space left to write to. Nothing
	// of the Update was kept; it may be tried again once there is space.
	ErrDiskFull = errors.New("no space is left for the queue's database")
	// ErrTaskExists is returned when a task is added twice.
	ErrTaskExists = errors.New("the task exists already")
	// ErrTaskAbsent is returned when the state of a task that was never added
	// is saved.
	ErrTaskAbsent = errors.New("there is no such task")
	// ErrWorkflowGone is returned when a list shall go on after a workflow that
	// is no longer there. Nothing is known of what comes next.
	ErrWorkflowGone = errors.New("the workflow is gone that the list was to go on after: begin from the start")
)

type partyKey struct{}

// ByParty gives the context of a View or an Update the name of the party that it is made
// for. Parties share the store's time fairly; what has no name is one party's.
func ByParty(ctx context.Context, party string) context.Context {
	return context.WithValue(ctx, partyKey{}, party)
}

// PartyOf returns the party for whom a View or an Update is made.
func PartyOf(ctx context.Context) string {
	party, _ := ctx.Value(partyKey{}).(string)
	return party
}

// Tx is one serialisable transaction: a table per kind of record.
//
// Load returns records in the order asked and leaves out absent ones. Lists
// return nothing for a limit below 1. What was loaded belongs to the caller,
// what was saved may be changed by the caller afterwards. Times come back in
// UTC.
type Tx interface {
	Meta() MetaTable
	Workflows() WorkflowTable
	Tasks() TaskTable
	Files() FileTable
	Attempts() AttemptTable
	Leases() LeaseTable
	Sites() SiteTable
	Pilots() PilotTable
	Grants() GrantTable
	Usage() UsageTable
	Audit() AuditTable
	// Changed tells whether anything was written so far that was not there already.
	Changed() bool
}

// MetaTable keeps single values: service clock, counters, the CA, the schema.
type MetaTable interface {
	Get(name string) (value []byte, err error) // nil if absent
	Set(name string, value []byte) error       // an empty value removes the name
	// Next adds n to a counter and returns its value before; starts at 1.
	Next(counter string, n uint64) (first uint64, err error)
}

// WorkflowTable keeps workflows and idempotency keys.
type WorkflowTable interface {
	Load(ids ...task.WorkflowID) ([]Workflow, error) // absent ones are left out
	Save(workflows ...Workflow) error
	Delete(ids ...task.WorkflowID) error
	// ByKey finds the newest workflow of an idempotency key; "" if none.
	ByKey(key string) (task.WorkflowID, error)
	// List returns workflows newest first, by first Save, at most limit, after
	// the given id ("" from the start, ErrWorkflowGone if it is gone); an owner or
	// a name of "" means any.
	List(owner, name string, after task.WorkflowID, limit int) ([]Workflow, error)
	// ToLookAt returns those whose SecondLook has come by an instant, the earliest
	// first, at most limit.
	ToLookAt(by Instant, limit int) ([]Workflow, error)
}

// TaskTable keeps descriptions and states of tasks.
type TaskTable interface {
	Describe(ids ...task.ID) ([]task.Task, error) // absent ones are left out
	// Add stores new tasks with their first states, one for each task. Seq is
	// unique in the queue and below 1<<63.
	Add(tasks []task.Task, states []TaskState) error
	Load(ids ...task.ID) ([]TaskState, error)
	// Save replaces states of tasks that were added; their Seq stays.
	Save(states ...TaskState) error
	// DeleteWorkflow removes tasks of a workflow with their uses, attempts and logs,
	// until about as many rows are gone as limit says; more tells that some are left.
	// Whoever begins goes on to the end: what is left is good for nothing.
	DeleteWorkflow(id task.WorkflowID, limit int) (more bool, err error)
	TaskScans
}

// TaskScans are the ordered reads of tasks.
type TaskScans interface {
	// InWorkflow returns states by age after Seq, at most limit; no states
	// means all.
	InWorkflow(id task.WorkflowID, after uint64, limit int, states ...task.State) ([]TaskState, error)
	// ReadyIn returns READY tasks of an eligibility class with NotBefore <=
	// now, highest priority first, then oldest, at most limit.
	ReadyIn(class ClassID, now Instant, limit int) ([]TaskState, error)
	// ReadyOf returns READY tasks of several classes with NotBefore <= now, highest
	// priority first, then oldest: of each class at most as many as its quota says,
	// and at most limit in all. It looks at so many rows of READY tasks of any class
	// at most, each of which holds one task or several that follow each other;
	// complete tells that it had not to stop for that.
	ReadyOf(quotas map[ClassID]int, now Instant, limit, rows int) (found []TaskState, complete bool, err error)
	// ReadyClasses returns the classes that have READY tasks with their
	// number (those in backoff included).
	ReadyClasses() (map[ClassID]int, error)
	// NextBackoff returns the earliest NotBefore after now of a READY task;
	// zero if none.
	NextBackoff(now Instant) (Instant, error)
	// Pausing returns READY tasks of any class with NotBefore > now, those that are due
	// first before the others, then oldest, at most limit.
	Pausing(now Instant, limit int) ([]TaskState, error)
	// InLease returns the tasks that are LEASED under a lease, by age.
	InLease(id task.LeaseID) ([]TaskState, error)
	// ReadyBefore counts READY tasks that come before the given one in a
	// class: higher priority, or same and older.
	ReadyBefore(class ClassID, priority int, seq uint64) (int, error)
	// DoneByMemo finds, among DONE tasks of a workflow, those with the keys,
	// in the order of the keys, then by age. A zero key finds nothing.
	DoneByMemo(id task.WorkflowID, keys ...task.Digest) ([]TaskState, error)
}

// FileTable keeps the catalogue, who reads a file, and eligibility classes.
type FileTable interface {
	Load(names ...task.LFN) ([]FileRecord, error) // absent ones are left out
	Save(files ...FileRecord) error
	Delete(names ...task.LFN) error
	// AddUses records that the task reads the files.
	AddUses(reader task.ID, names ...task.LFN) error
	// Readers returns the tasks that read a file, by id.
	Readers(name task.LFN) ([]task.ID, error)
	// List returns files by name with a prefix, after a name ("" from the
	// start), at most limit.
	List(prefix string, after task.LFN, limit int) ([]FileRecord, error)
	// Foreign returns, by name, the files that have a replica with the same
	// task.CopyName as a URL, but not those as which an attempt has stored it.
	Foreign(url string) ([]task.LFN, error)
	// OnlyAnnouncedAt returns files announced at a site that have no replica,
	// by name.
	OnlyAnnouncedAt(site task.Site, after task.LFN, limit int) ([]FileRecord, error)
	// Classes returns all interned eligibility classes, by id.
	Classes() ([]Eligibility, error)
	SaveClass(class Eligibility) error
	// DropClasses forgets classes; no READY task is in one of them.
	DropClasses(ids ...ClassID) error
	// Garbage lists replicas to be deleted, but for those at some sites, first
	// added first.
	Garbage(limit int, except ...task.Site) ([]task.Replica, error)
	AddGarbage(replicas ...task.Replica) error
	DropGarbage(replicas ...task.Replica) error
}

// AttemptTable keeps attempts and the ends of their output streams.
type AttemptTable interface {
	Load(ids ...task.AttemptID) ([]Attempt, error) // absent ones are left out
	Save(attempts ...Attempt) error                // without Stdout and Stderr
	// OfTask returns a task's attempts in order of first report.
	OfTask(id task.ID) ([]Attempt, error)
	// RunningAt returns a pilot's attempts in state AttemptRunning, in order
	// of first report.
	RunningAt(pilot task.PilotID) ([]Attempt, error)
	SaveLog(id task.AttemptID, stdout, stderr []byte) error
	LoadLog(id task.AttemptID) (stdout, stderr []byte, err error)
}

// LeaseTable keeps open leases and revocations not yet confirmed.
type LeaseTable interface {
	Load(ids ...task.LeaseID) ([]Lease, error)
	Save(leases ...Lease) error
	Delete(ids ...task.LeaseID) error
	OfSite(site task.Site) ([]Lease, error)      // by id
	OfPilot(pilot task.PilotID) ([]Lease, error) // that a pilot holds, by id
	ExpiredBy(now Instant) ([]Lease, error)      // by id
	// Revocations returns those of a site's leases, by lease, then task; no
	// leases means all.
	Revocations(site task.Site, leases ...task.LeaseID) ([]Revocation, error)
	RevocationsOf(pilot task.PilotID) ([]Revocation, error) // by site, lease, then task
	Revoke(revocations ...Revocation) error                 // same site, lease and task replaces
	Confirm(revocations ...Revocation) error                // removes by site, lease and task
}

// SiteTable keeps sites.
type SiteTable interface {
	Load(names ...task.Site) ([]SiteRecord, error)
	Save(sites ...SiteRecord) error
	Delete(names ...task.Site) error
	All() ([]SiteRecord, error) // by name
}

// PilotTable keeps registered pilots.
type PilotTable interface {
	Load(ids ...task.PilotID) ([]PilotRecord, error)
	Save(pilots ...PilotRecord) error
	Delete(ids ...task.PilotID) error
	// List returns pilots by id, after an id ("" from the start), at most limit.
	List(after task.PilotID, limit int) ([]PilotRecord, error)
	// OfSite returns a site's pilots by id; no states means all; site ""
	// means every site.
	OfSite(site task.Site, states ...PilotState) ([]PilotRecord, error)
	// IDsOfSite returns the ids of those that OfSite returns.
	IDsOfSite(site task.Site, states ...PilotState) ([]task.PilotID, error)
	// ByPeer finds the newest pilot of a peer id, by first Save; "" if none.
	ByPeer(peer task.PeerID) (task.PilotID, error)
}

// AuditTable keeps what was done, by time.
type AuditTable interface {
	Append(record AuditRecord) error // whose time no other has
	Delete(at ...uint64) error
	// Last returns the newest record; its time is 0 if there is none.
	Last() (AuditRecord, error)
	// After returns records later than a time, oldest first, at most limit.
	After(at uint64, limit int) ([]AuditRecord, error)
}

// GrantTable keeps what the queue knows of access tokens.
type GrantTable interface {
	Load(ids ...string) ([]Grant, error)
	Save(grants ...Grant) error
	Delete(ids ...string) error
	All() ([]Grant, error) // by id
}

// UsageTable keeps accounts.
type UsageTable interface {
	Load(keys ...UsageKey) ([]Usage, error) // absent ones are left out
	Save(usage ...Usage) error
	// Since returns what was used from a day on, by day, owner and site, after a key
	// (the zero one: from the start), at most limit.
	Since(day string, after UsageKey, limit int) ([]Usage, error)
}
