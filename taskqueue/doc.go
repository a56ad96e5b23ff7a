// Package taskqueue is the central queue's core: a task's life, leases,
// terms, hand-out to sites, readiness by data, generations and outcomes.
//
// Its rules are methods of Rules that work on one Turn: a store transaction,
// the time, and a collector of effects. They do no I/O of their own, read no
// clock, start no goroutine and use no randomness but what a Turn carries, so
// a transaction may be retried and a simulator runs the very same code. What a rule
// cannot or must not do ends its turn (turn_failure.go).
// The store engines are in store/*, the gRPC edge in server.
package taskqueue
