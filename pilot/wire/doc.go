// Package wire turns what master and workers say to each other into bytes and
// back, in the form of proto/pilotage/v1/round.proto. The overlay carries the
// bytes and compresses them.
//
// Decode trusts nothing: counts, lengths and numbers are bounded, and an error
// names the field. Whether a message makes sense at its moment is for package
// pilot.
//
// The package has no goroutine and no state; its functions are safe for
// concurrent use.
package wire
