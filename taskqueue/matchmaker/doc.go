// Package matchmaker chooses tasks for single pilots at sites where the queue
// matches (modes centralized and isolated). It keeps in memory what the pilots of
// such a site have told last, and the READY tasks that the site may run.
//
// It reads committed records and changes none: what it chooses becomes true by
// Rules.Grant of package taskqueue, what it wants done for a site by Rules.Tend.
// It does no I/O of its own, reads no clock and starts no goroutine.
package matchmaker
