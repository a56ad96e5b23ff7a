// Package issuer knows who shows a token of another issuer than the queue: a JSON Web
// Token by the WLCG profile or of SciTokens. It keeps the issuers' public keys, fetches
// them anew now and then, and goes on with those that it has while an issuer does not
// answer. It never decides what a scope allows. Run owns its one goroutine.
package issuer
