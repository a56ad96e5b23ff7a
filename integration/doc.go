// Package integration drives the real binary as users do: separate processes,
// real sockets, real disks. Its tests start queues and pilots in temporary
// folders, kill them at observed moments, and check from outside what came of
// the work: by the ledger that payloads write and by the bytes on the storage
// elements.
package integration
