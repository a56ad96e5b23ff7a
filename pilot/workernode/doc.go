// Package workernode runs a pilot on a worker node. It has what the pilot uses there: a
// folder on the node's disk for cache, work and logs, the processes of payloads, the
// server that gives cached files to other pilots, the way to storage elements, claims
// on the disk, and records of what ran.
//
// Run prepares the node, enrolls a pilot (package agent), makes its parts, has it work
// with them, and gives everything up after its farewell.
//
// It speaks neither with the queue nor in the overlay: the pilot does. The pilot's Work
// owns the goroutines, those of the parts among them.
package workernode
