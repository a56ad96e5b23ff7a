package identity

import (
	"errors"
	"fmt"
	"time"
)

// Why a certificate, a token or an access file was refused. Test with
// errors.Is; the errors that carry them name the thing and what to do next.
var (
	// ErrMalformed: not a certificate, token or message of the expected form.
	ErrMalformed = errors.New("malformed")
	// ErrForeignAuthority: not signed by the authority of this VO.
	ErrForeignAuthority = errors.New("not signed by this VO's authority")
	// ErrNotYetValid: begins in the future by more than ClockSkew.
	ErrNotYetValid = errors.New("not yet valid")
	// ErrExpired: matched by every *ExpiredError.
	ErrExpired = errors.New("expired")
	// ErrWrongUse: signed by the VO, but not as a membership certificate.
	ErrWrongUse = errors.New("not a membership certificate")
	// ErrWrongKey: the certificate is not that of the key, peer or pilot at
	// the other end.
	ErrWrongKey = errors.New("certificate of another key")
	// ErrDenied: the peer is on the deny list.
	ErrDenied = errors.New("denied")
	// ErrOtherSite: a member, but of another site.
	ErrOtherSite = errors.New("member of another site")
	// ErrUnknownToken: no token with this id and secret.
	ErrUnknownToken = errors.New("unknown token")
	// ErrRevoked: the token was revoked.
	ErrRevoked = errors.New("revoked")
)

// ExpiredError says that something was valid until a moment that has passed.
type ExpiredError struct {
	Subject string    // what expired, e.g. "token abcd"; never a secret
	Expired time.Time // the end of its validity
	Advice  string    // what to do next
}

func (e *ExpiredError) Error() string {
	return fmt.Sprintf("%s expired at %s: %s", e.Subject, e.Expired.UTC().Format(time.RFC3339), e.Advice)
}

// Is makes every ExpiredError match ErrExpired.
func (e *ExpiredError) Is(target error) bool { return target == ErrExpired }
