// Package serving is what a queue's server does around the rules of package taskqueue:
// it parks Syncs and Pulls, knows the signs of life of masters, matches tasks where the
// queue does so, and lets the rules tick.
//
// A server drives it with real calls and clocks, the simulation (sim/world) with
// virtual ones: time is an argument. It starts no goroutine, does no I/O but through the
// store that it is given, and knows neither the wire nor who may call.
package serving
