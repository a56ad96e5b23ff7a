package sqlite

import (
	"context"
	"errors"
	"os"

	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/internal/gate"
)

// Store is a taskqueue.Store in an SQLite database. It is safe for concurrent
// use; a Tx is not.
type Store struct {
	path    string
	lock    *os.File
	gate    gate.Gate
	writer  writer
	readers chan *connection // idle ones
}

// View calls read with what was committed last.
func (s *Store) View(ctx context.Context, read func(taskqueue.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !s.gate.Enter() {
		return taskqueue.ErrClosed
	}
	defer s.gate.Leave()
	conn, err := s.reader()
	if err != nil {
		return err
	}
	defer s.giveBack(conn)
	if _, err := conn.exec("BEGIN"); err != nil {
		return err
	}
	tx := &tx{conn: conn, readOnly: true}
	defer tx.end()
	return read(tx)
}

func (s *Store) reader() (*connection, error) {
	select {
	case conn := <-s.readers:
		return conn, nil
	default:
		return connect(s.path, readerCache)
	}
}

// giveBack ends a View's transaction and keeps the connection if there is
// room. One that cannot end its transaction is of no more use.
func (s *Store) giveBack(conn *connection) {
	if _, err := conn.exec("ROLLBACK"); err == nil {
		select {
		case s.readers <- conn:
			return
		default:
		}
	}
	_ = conn.close() // nothing was written through it
}

// Update calls write and returns once what it wrote is on disk. Updates that
// come while another one runs are committed together with it. When a common
// commit fails, each of them is tried once more alone.
func (s *Store) Update(ctx context.Context, write func(taskqueue.Tx) error) error {
	if !s.gate.Enter() {
		return taskqueue.ErrClosed
	}
	defer s.gate.Leave()
	err, shared := s.writer.update(ctx, write, false)
	if shared {
		err, _ = s.writer.update(ctx, write, true)
	}
	return err
}

// Close waits for what runs, then writes the log back into the database and
// unlocks the folder.
func (s *Store) Close() error {
	if !s.gate.Close() {
		return nil
	}
	close(s.readers)
	var errs []error
	for conn := range s.readers {
		errs = append(errs, conn.close())
	}
	errs = append(errs, s.writer.conn.close(), s.lock.Close())
	return errors.Join(errs...)
}
