// Package memnet runs the overlays (dht.Overlay) of many members of a site on virtual
// time: an in-memory network with latency, closed and hung members, and counters, and a
// model of what kad-dht answers. It starts no goroutine: Run processes events until a
// condition holds or the time is over. It is for deterministic tests and for package
// sim; package live runs real nodes.
package memnet
