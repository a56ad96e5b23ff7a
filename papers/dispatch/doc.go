// Package dispatch holds schedulers that answer one request at a time without
// a rank matrix: 001's worker-centric strategies (WorkerCentric) with their
// reference tables, and the baselines that they are measured against, a plain
// queue (Workqueue) and the task-centric storage affinity (StorageAffinity).
//
// The package is pure: no I/O, no clock, no goroutine, no randomness but what
// it is given, and no decision that depends on the order of a map. Nothing in
// it is safe for concurrent use.
package dispatch
