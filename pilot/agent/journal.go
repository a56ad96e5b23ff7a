package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/pilotage-grid/pilotage/pilot/journal"
	"github.com/pilotage-grid/pilotage/pilot/master"
	"github.com/pilotage-grid/pilotage/pilot/message"
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

// open makes the journal's file. One that is there is not replaced.
func (r *recorder) open(path string) error {
	if path == "" {
		return nil
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return &JournalError{err}
	}
	r.file = file
	return nil
}

// begin has the master's core recorded from now on.
func (r *recorder) begin(header journal.Header) (err error) {
	if r.file == nil {
		return nil
	}
	r.begun = true
	r.writer, err = journal.NewWriter(r.file, header)
	return err
}

// step lets the master's core take an event, and records it. A journal that cannot
// be written ends; the pilot goes on.
func (r *recorder) step(log *slog.Logger, core *master.Master, event message.Event) []message.Action {
	if r.writer == nil {
		return core.Step(time.Now(), event)
	}
	actions, err := r.writer.Step(core, time.Now(), event)
	if err != nil {
		log.Error("the journal ends here", "file", r.file.Name(), "error", err)
		r.writer = nil
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
