// Package replica decides which files are copied to which pilots before tasks
// ask for them, and what follows from that for the tasks: 003's alpha rule
// (Alpha), 002's plans (Plans) and plain first come, first served (FCFS).
// Policies are Planners; a Chain runs them in a chosen order, so that each
// sees only the tasks and nodes that none before it has claimed.
//
// The package decides and carries out nothing: copies go from peer to peer,
// reservations and starts are the master's. It is pure: no I/O, no clock, no
// goroutine, no randomness, and no decision that depends on the order of a
// map. Nothing in it is safe for concurrent use.
package replica
