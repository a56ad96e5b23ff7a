// Package peer moves cached files between the pilots of a site: a data server
// over the on-disk cache, and the client that fetches from one or several of
// them.
//
// Both ends speak HTTP/1.1 with byte ranges on kept-alive TLS 1.3 connections
// and show membership certificates: the server lets in members of its site
// only, the client talks to exactly the peer it meant. Every chunk is held
// against its BLAKE3 digest before it counts. The server serves what is whole
// in its cache and nothing else: it never waits for a fetch of its own, so two
// pilots that want each other's files cannot block one another. When it serves
// as many transfers as it may, it says so at once and names others who have
// the file.
//
// Resources:
//
//	GET /v1/files/{key}           the content; Range as in RFC 9110 section 14
//	GET /v1/files/{key}/manifest  size, digest and chunk digests as JSON
//
// The key is one escaped path segment. Server.Run owns the server's
// goroutines; Client.Fetch ends those that it starts before it returns.
package peer
