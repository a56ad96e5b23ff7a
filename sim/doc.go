// Package sim holds what all simulations share: a timeline of events in virtual
// time, a network of shared links, background load, and the record of what
// happened, with its hash.
//
// Package sim/grid plays the production cores of queue, pilots and caches, package
// sim/world those of queue and sites under faults. The rules that are played are
// those of the product: nothing here decides which task runs where. The models and
// policies that only the papers need are in papers/, a module of its own.
//
// Nothing in it reads a clock, and all randomness comes from a seed, so the same
// settings give the same record, with the same hash. It starts no goroutine; its
// values belong to one goroutine.
package sim
