// Package wire turns the overlay's messages into bytes and back, in the form
// of internal/codec: every message follows its length, an unsigned varint; what is
// larger than a kibibyte travels compressed. A broadcast's payload is compressed apart
// (PackPayload), once for all hops.
//
// Decode trusts nothing: sizes, list lengths, key lengths, durations and what
// a compressed message unpacks to are bounded, and an error names the field.
// It decides nothing about meaning: whether a message makes sense at its
// moment is for package dht.
//
// The package has no goroutine and no state; its functions are safe for
// concurrent use.
package wire
