package taskqueue

import (
	"errors"
	"fmt"

	"github.com/pilotage-grid/pilotage/task"
)

// Errors that callers decide on; every error of a rule wraps one of them, or
// comes from the store.
var (
	// ErrNotFound: the named workflow, task, site, pilot or grant does not exist.
	ErrNotFound = errors.New("not found")
	// ErrInvalid: the request itself is wrong and stays wrong.
	ErrInvalid = errors.New("invalid request")
	// ErrConflict: the request contradicts what the queue holds.
	ErrConflict = errors.New("conflict")
	// ErrStaleTerm: another mastership is in office; see *StaleTermError.
	ErrStaleTerm = errors.New("stale term")
	// ErrRefused: the caller may not do this, now or at all.
	ErrRefused = errors.New("refused")
	// ErrStranger: the caller shows a membership that does not count any more: the queue
	// has no record of it, as after it was put back to a backup, or it is of another
	// release than its site is now.
	ErrStranger = errors.New("this pilot is not a member any more: start a new pilot")
	// ErrLimit: more than the queue takes.
	ErrLimit = errors.New("over the limit")
)

// StaleTermError refuses a master whose term is not the one in office.
type StaleTermError struct {
	Site   task.Site
	Given  task.Term
	Office task.Term // the term in office
	Master task.PilotID
}

func (e *StaleTermError) Error() string {
	if e.Office.Less(e.Given) {
		return fmt.Sprintf("site %s: term %s was never granted (in office is %s): claim the mastership first",
			e.Site, e.Given, e.Office)
	}
	return fmt.Sprintf("site %s: term %s is over, %s holds %s: follow that master", e.Site, e.Given, e.Master, e.Office)
}

// Unwrap makes errors.Is(err, ErrStaleTerm) true.
func (e *StaleTermError) Unwrap() error { return ErrStaleTerm }

// NotFound wraps ErrNotFound and says which command names what is there.
func NotFound(kind string, name any) error {
	if list := listedBy[kind]; list != "" {
		return fmt.Errorf("%s %v: %w: `pilotage %s` names what is there", kind, name, ErrNotFound, list)
	}
	return fmt.Errorf("%s %v: %w", kind, name, ErrNotFound)
}

var listedBy = map[string]string{
	"workflow": "workflow list", "task": "task list WORKFLOW", "file": "file list", "site": "site list", "pilot": "pilot list --all", "access": "access list",
}

func invalid(format string, arguments ...any) error {
	return fmt.Errorf("%w: %w", ErrInvalid, fmt.Errorf(format, arguments...))
}

func conflict(format string, arguments ...any) error {
	return fmt.Errorf("%w: %w", ErrConflict, fmt.Errorf(format, arguments...))
}

func refused(format string, arguments ...any) error {
	return fmt.Errorf("%w: %w", ErrRefused, fmt.Errorf(format, arguments...))
}
