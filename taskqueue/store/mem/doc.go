// Package mem keeps a queue in memory: the twin of the durable stores, for
// tests and simulations. Nothing outlives the process.
//
// Its tables are copy-on-write B-trees. An Update works on a copy, which costs
// as much as what it changes, and publishes it by swapping one pointer; a failed
// one is dropped. Views read the tables that were current when they began and
// never wait. The package starts no goroutine.
package mem
