// Package manysites plays a queue with many large sites in virtual time: up to a
// million pilots, which is beyond what package grid can hold.
//
// The queue is production code: the rules of package taskqueue over its store in
// memory, with one server that serves one call after the other.
//
// A site is a model. It has no files, no rank matrix and no overlay: pilots are
// alike, so a solution of the matrix gives the oldest tasks to whoever has room.
// What decides when something happens is that of the production cores, with
// their own settings (pilot.Config): when a master calls the queue and what it
// tells, how tasks come into the list and when the matrix is solved, what a
// pilot gets early, when it reports. A test holds the model against runs of the
// production cores in package grid.
//
// The package is pure: virtual time, seeded randomness, no goroutine.
package manysites
