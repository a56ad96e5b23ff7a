// Package identity says who is who in a VO: its certificate authority, the
// membership certificates of pilots, the access files and tokens of people
// and services, and the TLS configurations that every connection uses.
//
// There are two ways to be known. A bearer token (in an access file, 0600)
// carries a role: admin, submit, or pilot of one site. A membership
// certificate binds a pilot's own Ed25519 key, and so its libp2p peer id, to
// a site and a pilot id until the pilot's declared end. The queue server, the
// libp2p handshake between pilots and their data HTTPS all ask this package
// the same question, [Verifier.Verify], and get the same refusals.
//
// What it never does: it opens no socket, starts no goroutine that outlives a
// call, touches no file but access files, decides no permission beyond "this
// is a member of that site" and "this token has that role", and never puts a
// token or a private key into text, logs or errors.
//
// Types are safe for concurrent use where they say so; the others are values
// that are not changed after they were made.
package identity
