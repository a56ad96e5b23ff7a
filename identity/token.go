package identity

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"fmt"
	"strings"
)

const (
	// tokenMark begins every token, so that people and secret scanners know
	// one when they see it.
	tokenMark   = "pil"
	tokenIDSize = 10 // bytes: 80 bits, unique without asking the database
	secretSize  = 32 // bytes: 256 bits, so no password hash is needed
)

var tokenEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// NewToken makes a token: a public id of 16 characters and a secret of 256
// random bits in 52 characters, both of a-z2-7.
func NewToken() (id string, secret string, err error) {
	var random [tokenIDSize + secretSize]byte
	if _, err := rand.Read(random[:]); err != nil {
		return "", "", fmt.Errorf("make a token: %w", err)
	}
	return tokenEncoding.EncodeToString(random[:tokenIDSize]), tokenEncoding.EncodeToString(random[tokenIDSize:]), nil
}

// FormatToken joins id and secret to the text that access files and requests
// carry: "pil_ID_SECRET".
func FormatToken(id, secret string) string { return tokenMark + "_" + id + "_" + secret }

// ParseToken splits the text of a token and checks the form of its parts.
// Errors are ErrMalformed and never repeat the text.
func ParseToken(text string) (id, secret string, err error) {
	mark, rest, _ := strings.Cut(text, "_")
	id, secret, found := strings.Cut(rest, "_")
	if mark != tokenMark || !found || !wellFormed(id, tokenIDSize) || !wellFormed(secret, secretSize) {
		return "", "", fmt.Errorf("token of %d characters is not of the form pil_ID_SECRET: copy it whole, or ask for a new access file: %w", len(text), ErrMalformed)
	}
	return id, secret, nil
}

// wellFormed tells whether the text is the one encoding of so many bytes.
func wellFormed(text string, size int) bool {
	if len(text) != tokenEncoding.EncodedLen(size) {
		return false
	}
	raw, err := tokenEncoding.DecodeString(text)
	return err == nil && tokenEncoding.EncodeToString(raw) == text
}

// HashSecret is what the queue keeps of a secret: SHA-256 over a fixed prefix
// and the secret. Slow hashing protects guessable passwords; these are not.
func HashSecret(secret string) [32]byte {
	return sha256.Sum256([]byte("pilotage token secret 1\x00" + secret))
}

// VerifySecret tells, in constant time, whether the hash is that of secret.
func VerifySecret(hash [32]byte, secret string) bool {
	given := HashSecret(secret)
	return subtle.ConstantTimeCompare(hash[:], given[:]) == 1
}
