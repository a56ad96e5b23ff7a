// Package sqlite keeps a queue in one SQLite database in one folder, which is
// all that a single queue server needs.
//
// Durability: write-ahead log with synchronous=FULL; a commit returns after
// the log was synced. What reads has connections of its own and never waits for
// what writes. The package starts no goroutine.
//
// The database has one table, of the blocks of package tables by their keys. A
// file beside it has the number of the last commit that was acknowledged.
package sqlite
