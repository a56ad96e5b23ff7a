// Package master is the core of a site's master: it holds the hand-out, keeps the
// task list and the rank matrix, assigns tasks to pilots, and speaks for the site
// with the queue. Master is a thread-unsafe value driven by Step(now, event), with
// Deadline() telling when it wants a Tick; it does no I/O, reads no clock and starts
// no goroutine.
package master
