package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/pilotage-grid/pilotage/pilot/journal"
	"github.com/pilotage-grid/pilotage/pilot/master"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// recorder writes the journal of this pilot's master, if one is wanted.
type recorder struct {
	file   *os.File
	begun  bool
	writer *journal.Writer // nil: nothing is recorded
}

// JournalError says that the journal's file cannot be made; one that is there
// already is fs.ErrExist.
type JournalError struct{ Err error }

func (e *JournalError) Error() string {
	var at *fs.PathError
	if errors.Is(e.Err, fs.ErrExist) && errors.As(e.Err, &at) {
		return fmt.Sprintf("the journal %s is there already: take it away or name another file", at.Path)
	}
	return fmt.Sprintf("make the journal: %v", e.Err)
}

// Unwrap is what the system said.
func (e *JournalError) Unwrap() error { return e.Err }

// openJournal makes the journal's file. One that is there is not replaced.
func (a *Agent) openJournal() error {
	path := a.config.Journal
	if path == "" {
		return nil
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return &JournalError{err}
	}
	a.recorder.file = file
	return nil
}

// beginJournal has the master's core recorded from now on.
func (a *Agent) beginJournal(id task.PilotID) (err error) {
	r := &a.recorder
	if r.file == nil {
		return nil
	}
	r.begun = true
	r.writer, err = journal.NewWriter(r.file, journal.Header{
		Version: a.config.Version, Site: a.site, Pilot: id, Config: master.DefaultConfig(),
	})
	return err
}

// stepMasterCore lets the master's core take an event, and records it. A
// journal that cannot be written ends; the pilot goes on.
func (a *Agent) stepMasterCore(event message.Event) []message.Action {
	if a.recorder.writer == nil {
		return a.master.Step(time.Now(), event)
	}
	actions, err := a.recorder.writer.Step(a.master, time.Now(), event)
	if err != nil {
		a.log.Error("the journal ends here", "file", a.config.Journal, "error", err)
		a.recorder.writer = nil
	}
	return actions
}

// close ends the journal, of which every record was written at once.
func (r *recorder) close() {
	if r.file == nil {
		return
	}
	_ = r.file.Close()
	if !r.begun {
		_ = os.Remove(r.file.Name())
	}
}
