// Package storage speaks to storage elements (SE): folders (file://) and web
// or WebDAV servers (http://, https://). It reads, writes, looks up and deletes
// whole files by name below an element's URL, lists its folders, and reads single
// replicas of any site by their URL.
//
// It knows no cache and no peer, keeps nothing between calls but connections
// and retry budgets, and starts no goroutine that outlives a call, except those
// of kept-alive connections, which Client.Close ends. Temporary errors are
// tried again inside, with full jitter and within a budget; what comes out is
// worth another source or a longer pause.
package storage
