package identity

import (
	"crypto/sha256"
	"crypto/x509"
	"sync"
	"time"
)

// mostSignatures bounds each of the two generations of signatures that are
// remembered, of 100 bytes each: more than a site has members.
const mostSignatures = 8192

// signatures remembers certificates whose signature was found good, the latest
// ones at least. Only the SHA-256 of the whole certificate stands for it. Safe
// for concurrent use.
type signatures struct {
	mutex      sync.Mutex
	young, old map[[sha256.Size]byte]span
}

// span is when all certificates of a chain are valid.
type span struct{ from, to time.Time }

func newSignatures() *signatures {
	return &signatures{young: make(map[[sha256.Size]byte]span)}
}

// good tells whether a certificate is known to be signed by an authority that
// is valid at a moment.
func (s *signatures) good(der []byte, at time.Time) bool {
	sum := sha256.Sum256(der)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	valid, known := s.young[sum]
	if !known {
		if valid, known = s.old[sum]; known {
			s.put(sum, valid)
		}
	}
	return known && !at.Before(valid.from) && !at.After(valid.to)
}

// add remembers a certificate with the chain that was verified.
func (s *signatures) add(der []byte, chain []*x509.Certificate) {
	valid := span{from: chain[0].NotBefore, to: chain[0].NotAfter}
	for _, certificate := range chain[1:] {
		if certificate.NotBefore.After(valid.from) {
			valid.from = certificate.NotBefore
		}
		if certificate.NotAfter.Before(valid.to) {
			valid.to = certificate.NotAfter
		}
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.put(sha256.Sum256(der), valid)
}

// put keeps the latest; the mutex is held.
func (s *signatures) put(sum [sha256.Size]byte, valid span) {
	if len(s.young) >= mostSignatures {
		s.young, s.old = make(map[[sha256.Size]byte]span), s.young
	}
	s.young[sum] = valid
}
