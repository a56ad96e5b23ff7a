// Package connlimit bounds the connections that a listener accepts, and what whoever
// has not shown an access may do with one. It starts no goroutine.
package connlimit
