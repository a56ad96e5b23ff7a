// Package cache holds the rules of a pilot's file cache: what is in it, how
// many bytes it may take, what may leave it and when (Index), from where a
// missing file is fetched (Planner), and which pilot of a site reads a storage
// element for all (Grants; Homes asks them).
//
// Everything here is a pure core: no I/O, no clock, no goroutine, no global
// randomness. Values are not safe for concurrent use; the shell that owns one
// guards it (disk.Cache for Index). Files are named by task.FileKey, which is
// the content's digest where known, because cached files are immutable.
package cache
