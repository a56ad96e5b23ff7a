// Package mem keeps a queue in memory: the twin of the durable stores, for
// tests and simulations. Nothing outlives the process.
//
// All tables are copy-on-write B-trees. An Update works on a copy of the
// current version, which costs as much as what it changes, and publishes it
// by swapping one pointer; a failed one is dropped. Views read the version
// that was current when they began and never wait. Records in the trees are
// never changed. The package starts no goroutine.
//
// A store in place, for simulations, has one version that is changed, and maps
// instead of those trees whose order nobody needs.
//
// What a simulation has millions of is kept small: a task is packed, and tasks
// that were added one after the other share what is equal in their descriptions.
package mem
