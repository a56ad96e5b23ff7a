// Package node puts a pilot's overlay (package dht) on the network: go-libp2p
// over TCP, and go-libp2p-kad-dht for joining, routing and lookups.
//
// Life of a Node: Listen opens the port, whose address goes into the pilot's
// registration with the queue; Join starts with what the registration
// answered; Run carries on until its context ends; Leave says goodbye; Close
// ends everything and waits for every goroutine. Until Join no connection is
// accepted.
//
// Nobody without a valid membership certificate of the same site gets as far
// as a stream: the exchange of certificates is part of the security handshake,
// before the multiplexer, so that not even identify answers a stranger.
//
// One goroutine, in Run, gives events to the core and carries its actions out.
// It never waits for the network: what is to be sent goes into a bounded queue
// per peer, each with a goroutine of its own, and a peer that does not keep up
// is reported to the core as disconnected. Everything that libp2p does to the
// node only adds to the loop.
//
// The package never looks into the bytes that it carries, decides nothing
// about mastership, broadcasts or locations, and does not transfer files.
package node
