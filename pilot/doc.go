// Package pilot holds the two roles of a pilot as pure cores: Worker runs
// tasks on its slots, Master serves a site. Each is a thread-unsafe value
// driven by Step(now, event) with Deadline() telling when it wants a Tick; it
// does no I/O, reads no clock and starts no goroutine.
//
// Master and workers talk in the Messages of this package, which pilot/wire
// encodes; payloads are run by pilot/exec; pilot/agent is the shell that
// connects cores, overlay, cache and queue.
package pilot
