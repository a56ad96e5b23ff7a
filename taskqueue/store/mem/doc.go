// Package mem keeps a queue in memory: the twin of the durable stores, for
// tests and simulations. Nothing outlives the process.
//
// It is a copy-on-write B-tree of the blocks of package tables. An Update works on a
// copy, which costs as much as what it changes, and publishes it by swapping one
// pointer; a failed one is dropped. Views read the tree that was current when they
// began and never wait. The package starts no goroutine.
package mem
