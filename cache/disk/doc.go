// Package disk is the on-disk file cache of one pilot: a safe shell around
// cache.Index that owns a folder, or shares it with other pilots of the node
// (shared.go).
//
// A file gets in through a Writer (reserve, write, verify, publish) or through
// Adopt (a payload's output), becomes visible atomically and complete, and
// never changes after. Its identity is the BLAKE3 digest of its content;
// external files whose digest was not known beforehand are reachable under
// their name too. Readers hold pins, which keep files from eviction. After a
// kill or a power cut, Open recovers by scanning the folder: what is not
// provably whole is removed.
//
// Layout below Config.Dir:
//
//	cache/lock           held by the process that owns the cache, or by all that share it
//	cache/tmp/           unfinished and leaving files; emptied at Open
//	cache/ab/<digest>    content, mode 0444 or 0555; ab are its first digits
//	cache/ab/<digest>.json  metadata with its own checksum; exists only beside whole content
//	cache/turn, users, uses, fetches, journal  in a shared folder: see shared.go
//
// The package starts no goroutine that outlives a call.
package disk
