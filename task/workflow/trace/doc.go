// Package trace holds workloads as they were recorded or generated: tasks with
// their run times, and files with their sizes. Readers of other formats fill a
// Builder; the simulator plays the Workload, and Plan turns it into real tasks
// with real files, both scaled, for a live grid.
//
// The package is pure: it opens no file, reads no clock and starts no
// goroutine. A Workload may be read by several goroutines, but not changed by
// more than one.
package trace
