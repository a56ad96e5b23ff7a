// Package service runs a factory of pilots: it asks the queue what waits for its
// site and the batch system which jobs there are, has the core decide, and carries
// out what that wants. Its folder holds the names of its jobs, written before they
// are submitted, their scripts and logs, and a status for people.
//
// [Run] blocks until its context ends. It starts no goroutine of its own.
package service
