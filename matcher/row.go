package matcher

import "github.com/pilotage-grid/pilotage/task"

// ClassAnswer is what a pilot says about all tasks of a class.
type ClassAnswer struct {
	Class        uint32
	Feasible     bool
	FailedClause string // the first that fails, "" when feasible
	// Base is the pilot's part of the rank. The rank of a task without
	// exception is Base plus the task's own EntryBase.
	Base float64
	// PerTask tells that there is no base: only tasks named as exceptions
	// have a rank at this pilot.
	PerTask bool
}

// Exception is a task that the pilot ranks otherwise than base plus entry
// base says, usually because it has an input in its cache.
type Exception struct {
	No         uint64
	Rank       float64 // whole, not relative to a base; 0 when infeasible
	Infeasible bool
	// FailedClause is the first clause that fails when infeasible.
	FailedClause string
}

// Row is all that a pilot has to say about one version of the task list: a
// column of the paper's rank matrix (004, III-C) in sparse form.
type Row struct {
	Pilot      task.PilotID
	Version    ListVersion
	Classes    []ClassAnswer // every class of the list
	Exceptions []Exception   // by rising No
	// Files of listed tasks that are in the cache, by key, where the evaluator
	// is to tell them.
	Files []task.FileKey
}

// RowUpdate changes a row of version Base, or a later one, into one of Version.
type RowUpdate struct {
	Pilot         task.PilotID
	Base, Version ListVersion
	Classes       []ClassAnswer // of new classes
	Set           []Exception   // by rising No
	Clear         []uint64      // exceptions that are none any more, rising
	// Came and Left are files of listed tasks that are in the cache now, and
	// that are not any more, by key; for replica policies only.
	Came, Left []task.FileKey
}

// Empty tells that the update says nothing new.
func (u *RowUpdate) Empty() bool {
	return u.Base == u.Version && len(u.Classes) == 0 && len(u.Set) == 0 && len(u.Clear) == 0 &&
		len(u.Came) == 0 && len(u.Left) == 0
}
