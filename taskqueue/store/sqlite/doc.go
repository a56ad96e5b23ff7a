// Package sqlite keeps a queue in one SQLite database in one folder, which is
// all that a single queue server needs.
//
// Durability: write-ahead log with synchronous=FULL; an Update returns after
// the log was synced. Updates that wait for each other share one transaction
// and one sync: each runs under a savepoint of its own, in the goroutine that
// called, and the last of a batch commits for all. The package starts no
// goroutine. Views read from connections of their own and never wait for
// Updates.
//
// Records are blobs; next to them stand the columns that scans need, with one
// index for each scan, so memory does not grow with the queue.
package sqlite
