package server

import (
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// Permitted tells whether a method is in the table of permissions.
func Permitted(method string) bool { _, listed := permissions[method]; return listed }

// Parked tells whether a Sync of the site waits.
func (s *Server) Parked(site task.Site) bool {
	parked, _ := s.masters.desk.Parked(site)
	return parked
}

// Clock is the service clock.
func (s *Server) Clock() taskqueue.Instant { return s.turns.clock.now() }

// Store is the server's store.
func (s *Server) Store() taskqueue.Store { return s.turns.store }

// WrapStore puts another store before that of a server that does not run yet.
func (s *Server) WrapStore(wrap func(taskqueue.Store) taskqueue.Store) {
	s.turns.store = wrap(s.turns.store)
}

// AttemptOfNumber is attemptOfNumber.
var AttemptOfNumber = attemptOfNumber

// Quantile is quantile.
var Quantile = quantile
