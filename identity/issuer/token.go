package issuer

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/pilotage-grid/pilotage/identity"
)

const (
	// skew is how far the clock of an issuer may be ahead of ours.
	skew = time.Minute
	// maxToken in bytes; WLCG wants tokens below 4 KiB.
	maxToken  = 16 << 10
	maxText   = 160 // of a subject, so that a person with its issuer stays below 200
	maxGroups = 64
)

// algorithms that the WLCG profile asks for. A list of what is taken, so that neither
// "none" nor a MAC with the public key as its secret is.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.ES256}

// Bearer is who shows a token.
type Bearer struct {
	Person  string // SUBJECT@ISSUER
	Groups  []string
	Scopes  []string
	ID      string // of the token; may be ""
	Expires time.Time
}

// ErrNoKeys tells that an issuer's keys are not there yet: call again soon.
var ErrNoKeys = errors.New("the keys of the token's issuer are not known yet")

// claims of a token, as far as they are looked at.
type claims struct {
	jwt.Claims

	Scope      texts    `json:"scope"`
	WLCGGroups []string `json:"wlcg.groups"`
}

// texts are words of one text, or a list.
type texts []string

// UnmarshalJSON reads either form.
func (t *texts) UnmarshalJSON(content []byte) error {
	var line string
	if json.Unmarshal(content, &line) == nil {
		*t = strings.Fields(line)
		return nil
	}
	return json.Unmarshal(content, (*[]string)(t))
}

// IsToken tells whether a text has the form of a signed JSON Web Token.
func IsToken(text string) bool { return strings.Count(text, ".") == 2 }

// Verify returns who shows a token. Refusals are identity.ErrMalformed,
// identity.ErrUnknownToken, *identity.ExpiredError and ErrNoKeys; none repeats the
// token. What a stranger wrote is told only once the signature is good.
func (k *Keys) Verify(text string, now time.Time) (Bearer, error) {
	if len(text) > maxToken {
		return Bearer{}, fmt.Errorf("token of %d bytes: at most %d are read: %w", len(text), maxToken, identity.ErrMalformed)
	}
	token, err := jwt.ParseSigned(text, algorithms)
	if err != nil || len(token.Headers) != 1 {
		return Bearer{}, fmt.Errorf("the token is no JSON Web Token signed by RS256 or ES256: %w", identity.ErrMalformed)
	}
	var unverified jwt.Claims
	if err := token.UnsafeClaimsWithoutVerification(&unverified); err != nil {
		return Bearer{}, fmt.Errorf("the token's claims cannot be read: %w", identity.ErrMalformed)
	}
	from := k.of(unverified.Issuer)
	if from == nil {
		return Bearer{}, fmt.Errorf("%w: this queue does not take tokens of its issuer", identity.ErrUnknownToken)
	}
	if known, ok := from.remembered(text, now); ok {
		return known, nil
	}
	keys := from.keysOf(token.Headers[0].KeyID, now)
	if len(keys) == 0 {
		return Bearer{}, k.missing(from)
	}
	var c claims
	signed := slices.ContainsFunc(keys, func(key jose.JSONWebKey) bool {
		c = claims{}
		return fits(&key, token.Headers[0].Algorithm) && token.Claims(key.Key, &c) == nil
	})
	if !signed {
		return Bearer{}, fmt.Errorf("%w: it is not signed by its issuer %s", identity.ErrUnknownToken, from.Name)
	}
	b, err := k.bearer(from, &c, now)
	if err == nil {
		from.remember(text, b)
	}
	return b, err
}

// fits tells whether a key is one to verify signatures of an algorithm with.
func fits(key *jose.JSONWebKey, algorithm string) bool {
	return key.Valid() && key.IsPublic() && (key.Use == "" || key.Use == "sig") && (key.Algorithm == "" || key.Algorithm == algorithm)
}

// isName tells whether a subject or a group is one that can be shown: what turns a line
// round, or is not seen, would let one pass for another.
func isName(text string) bool {
	hidden := func(r rune) bool { return !unicode.IsPrint(r) }
	return text != "" && len(text) <= maxText && utf8.ValidString(text) && !strings.ContainsFunc(text, hidden)
}

// bearer judges the claims of a token that its issuer has signed.
func (k *Keys) bearer(from *keySet, c *claims, now time.Time) (Bearer, error) {
	refuse := func(format string, arguments ...any) (Bearer, error) {
		return Bearer{}, fmt.Errorf("%w: the token of %s %s", identity.ErrUnknownToken, from.Name, fmt.Sprintf(format, arguments...))
	}
	switch {
	case c.Issuer != from.URL:
		return refuse("names another issuer")
	case !isName(c.Subject):
		return refuse("names no subject, or one that is no name")
	case c.Expiry == nil:
		return refuse("has no end")
	case !now.Before(c.Expiry.Time()):
		return Bearer{}, &identity.ExpiredError{Subject: "the token of " + from.Name, Expired: c.Expiry.Time(), Advice: "get a new one, e.g. with oidc-token or htgettoken"}
	case c.NotBefore != nil && now.Add(skew).Before(c.NotBefore.Time()):
		return refuse("is not valid before %s: check this host's clock", c.NotBefore.Time().UTC().Format(time.RFC3339))
	case !slices.ContainsFunc(k.audience, c.Audience.Contains):
		return refuse("is for another audience than this queue: ask for %s", k.audience[0])
	case len(c.WLCGGroups) > maxGroups:
		return refuse("names more than %d groups", maxGroups)
	case len(from.Groups) > 0 && !slices.ContainsFunc(from.Groups, func(g string) bool { return slices.Contains(c.WLCGGroups, g) }):
		return refuse("is of none of the groups %s", strings.Join(from.Groups, ", "))
	}
	b := Bearer{Person: c.Subject + "@" + from.Name, Scopes: c.Scope, ID: c.ID, Expires: c.Expiry.Time()}
	for _, group := range c.WLCGGroups {
		if isName(group) {
			b.Groups = append(b.Groups, group)
		}
	}
	return b, nil
}
