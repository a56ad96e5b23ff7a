// Package dht is the core of a site's overlay: who is a member (membership), who
// is master (election), how a message reaches every member and its replies
// come back aggregated (broadcast), and which members hold a file
// (locations). It carries opaque bytes for those who use it.
//
// Overlay is one pilot's view. It is a pure, thread-unsafe value driven by
// Step(now, event); it opens no connection, reads no clock and starts no
// goroutine. dht/node puts it on go-libp2p and kad-dht, dht/memnet runs many
// in one process.
package dht
