// Package memnet runs many overlays in one process on virtual time: an
// in-memory network with latency, closed and hung members, and counters. It
// drives the very same dht.Overlay as the real network does; only the
// carrier of the messages differs. It starts no goroutine: Run processes
// events until a condition holds or the time is over.
package memnet
