// Package exec runs payloads: it stages cached inputs into a work folder of
// its own, starts the command with an allow-listed environment in a sandbox,
// watches walltime, memory and disk, kills every descendant, and collects the
// declared outputs.
//
// It never fetches or keeps files, never speaks to anybody over a network and
// never decides what runs: the caller hands in cached files and takes the
// outputs out of the work folder before it releases the folder.
//
// The package changes three things of the whole process when a Runner is
// made: the process becomes the reaper of orphaned descendants (subreaper), it
// can no longer be traced or dumped by processes of the same user, and file
// descriptors inherited from its parent are closed on exec. Restrictions meant
// for payloads are set only on throw-away threads that fork them.
//
// Beside the process stands a small guard, a shell that outlives it by some
// seconds and kills what the payloads of a killed pilot have left.
//
// Run owns its goroutines and ends them before it returns. Close ends
// everything that still runs. A Runner may be used by many goroutines.
package exec
