// Package sim holds what all simulations share: a timeline of events in virtual
// time, a network of shared links, background load, and the record of what
// happened, with its hash.
//
// Package sim/worksites plays sites whose workers pull tasks and share a data
// server; package sim/cluster plays a batch cluster whose nodes federate their
// disks; package sim/grid plays the production cores of queue, pilots and caches;
// package sim/paper repeats the papers' experiments. The rules that are
// played are those of the product: nothing here decides which task runs where, but
// for a batch system's own FIFO, a baseline.
//
// Nothing in it reads a clock, and all randomness comes from a seed, so the same
// settings give the same record, with the same hash. It starts no goroutine; its
// values belong to one goroutine.
package sim
