// Package worker is the core of a pilot as it runs tasks: it stages inputs in,
// starts payloads when a slot is free, publishes outputs, and keeps every outcome
// until the queue's acceptance is echoed. Worker is a thread-unsafe value driven by
// Step(now, event), with Deadline() telling when it wants a Tick; it does no I/O,
// reads no clock and starts no goroutine.
package worker
