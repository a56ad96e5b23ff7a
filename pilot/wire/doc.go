// Package wire turns what master and workers say to each other into bytes and
// back: the types of package message as package codec writes them, with the limits
// and checks of what comes from outside. The overlay carries the bytes and
// compresses them.
//
// Whether a message makes sense at its moment is for the cores.
//
// The package has no goroutine and no state; its functions are safe for
// concurrent use.
package wire
