// Package worksites plays the grid of paper 001 (section 2.2): sites with
// workers and one data server each, a file server that has every file, and one
// scheduler that all workers ask for tasks. A data server fetches the missing
// files of one request after the other and keeps as many files as fit, the least
// recently used go first; then the worker computes.
//
// Which task a worker gets is decided by the Scheduler alone; those of the
// paper are in package dispatch. The package is pure: virtual time, seeded
// randomness, no goroutine.
package worksites
