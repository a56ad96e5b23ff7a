// Package fetch brings the inputs of tasks into a pilot's cache: the shell
// around cache.Planner, which decides, and cache.Grants, which every pilot
// runs for the files whose home it is.
//
// Fetcher stages the inputs of a task: own cache, then peers, then storage
// elements. HomesClient and Desk are the two ends of the question whether to
// read a storage element; they speak in opaque messages that the pilot's
// shell carries over the overlay.
//
// Sources are counted once per attempt and input: local when the file was in
// the own cache when Stage was called, else where the bytes then came from. A
// fetch that was under way for another attempt already counts with its source
// for every attempt that waits for it.
//
// Fetcher.Run and Desk.Run own all goroutines; Stage starts none.
package fetch
