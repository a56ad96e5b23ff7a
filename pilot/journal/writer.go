package journal

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/pilotage-grid/pilotage/pilot/master"
	"github.com/pilotage-grid/pilotage/pilot/message"
)

// Writer writes a journal. Not safe for concurrent use.
type Writer struct {
	to    io.Writer
	began time.Time
}

// NewWriter begins a journal.
func NewWriter(to io.Writer, header Header) (*Writer, error) {
	w := &Writer{to: to, began: time.Now()}
	if _, err := fmt.Fprintf(to, firstLine, Format, header.Version); err != nil {
		return nil, fmt.Errorf("write the journal: %w", err)
	}
	return w, w.write(&header)
}

// Step lets a core take an event and records both the event and what it
// assigns. The actions are good also when an error tells that the journal
// cannot be written; it then ends with the record before.
func (w *Writer) Step(core *master.Master, now time.Time, event message.Event) ([]message.Action, error) {
	// The core must see the very time that is recorded, so the wall clock's
	// jumps are left out before and not when the time is encoded.
	at := w.began.Round(0).Add(now.Sub(w.began))
	err := w.write(&record{At: at, Event: withoutSecrets(event)})
	actions := core.Step(at, event)
	if assigned := assignedBy(actions); err == nil && len(assigned) > 0 {
		err = w.write(&record{Assigned: assigned})
	}
	return actions, err
}

// withoutSecrets is an event as a file may hold it: what opens storage elements
// stays in memory.
func withoutSecrets(event message.Event) message.Event {
	switch e := event.(type) {
	case master.TookOffice:
		e.Settings.Secrets = ""
		return e
	case master.SyncAnswered:
		e.Reply.Settings.Secrets = ""
		return e
	}
	return event
}

// write writes a value, to which a pointer points, at once.
func (w *Writer) write(value any) error {
	data := records.Append(nil, value)
	if _, err := w.to.Write(append(binary.AppendUvarint(nil, uint64(len(data))), data...)); err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	return nil
}
