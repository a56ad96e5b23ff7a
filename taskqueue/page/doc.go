// Package page serves the live page: what a VO's queue knows, for people with a
// browser.
//
// It shows and changes nothing. Everything comes through a [Backend], which judges
// the viewer's token for each call as it does for gRPC. The browser gets static files,
// JSON of the queue's own protos by POST /call/SERVICE/METHOD, and a stream of
// server-sent events from /live. A look at the whole is taken once for all viewers.
//
// The package starts no goroutine; streams run in those of their requests.
package page
