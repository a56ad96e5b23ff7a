// Package task holds the words every other package speaks: identifiers, the
// description of a task and of its files, resources, attempts, leases, terms,
// and the states of a task with their one transition table.
//
// It is the leaf of the import graph: plain values, validation and parsing.
// It never does I/O, never reads a clock, starts no goroutine and decides
// nothing about scheduling.
package task

//go:generate go run ./statedoc ../docs/task-states.md
