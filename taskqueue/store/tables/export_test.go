package tables

import "time"

// SetPatience sets how long a batch may stay open.
func (s *Store) SetPatience(d time.Duration) { s.writer.patience = d }

// Waiting is how many Updates wait for the one that runs.
func (s *Store) Waiting() int {
	s.writer.mutex.Lock()
	defer s.writer.mutex.Unlock()
	return len(s.writer.line.waiting)
}
