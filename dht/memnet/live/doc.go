// Package live carries many real nodes (node.Node) of a site in one process, on real
// time. Only the carrier of the bytes differs from production; the rules of package dht
// are the same, and so is all of package node.
//
//	carrier, err := live.NewCarrier(live.Memory, seed)
//	...
//	n, err := node.Listen(node.Config{..., Carrier: carrier})
//
// Nothing else is different for the user of node.Listen, and the carrier is
// closed after its nodes. Memory puts go-libp2p's whole host with swarm and
// identify over a transport that claims TCP with invented addresses of
// 10.0.0.0/8; Light replaces the host by one without a swarm. Both run kad-dht,
// show and judge membership certificates on every connection, and share one
// peerstore between all nodes. Neither encrypts, and neither uses TLS or a
// multiplexer: every stream is a pair of bounded buffers. Set Advertise to the
// host's real address (127.0.0.1): data servers listen there, and Reach, which
// a node is probed with, looks for real ports at it.
//
// SetLatency, Kill, Hang, Resume and Partition disturb; Sent and SentByAll
// count messages and bytes by kind; Watch shows every message of the overlay.
// A Carrier starts no goroutine but those that serve a light host's streams,
// which the host's Close waits for.
package live
