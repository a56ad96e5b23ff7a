// Command statedoc writes docs/task-states.md: the states of a task and the
// transitions between them, read from the table of package task. It runs by
// `go generate` and decides nothing; a state or event without a description
// is an error.
package main
