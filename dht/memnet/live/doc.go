// Package live carries many real nodes (node.Node) of a site in one process, on real
// time. Only the carrier of the bytes differs from production; the rules of package dht
// are the same, and so is all of package node.
//
//	carrier, err := live.NewCarrier()
//	...
//	n, err := node.Listen(node.Config{..., Carrier: carrier})
//
// Nothing else is different for the user of node.Listen, and the carrier is
// closed after its nodes. Each node has a host without a swarm at an invented address
// of 10.0.0.0/8 that claims TCP. It runs kad-dht, shows and judges membership
// certificates on every connection, and shares one peerstore with all others. Nothing
// is encrypted, and every stream is a pair of bounded buffers. Set Advertise to the
// host's real address (127.0.0.1): data servers listen there, and Reach, which
// a node is probed with, looks for real ports at it.
//
// Kill, Hang and Resume disturb; SentByAll counts messages and bytes by kind. A Carrier
// starts no goroutine but those that serve a host's streams, which the host's Close
// waits for.
package live
