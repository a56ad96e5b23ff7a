package identity

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestTokenRoundTrip(t *testing.T) {
	id, secret, err := NewToken()
	if err != nil {
		t.Fatal(err)
	}
	text := FormatToken(id, secret)
	if !regexp.MustCompile(`^pil_[a-z2-7]{16}_[a-z2-7]{52}$`).MatchString(text) {
		t.Errorf("token has another form than documented (%d characters)", len(text))
	}
	gotID, gotSecret, err := ParseToken(text)
	if err != nil || gotID != id || gotSecret != secret {
		t.Errorf("parsed another token: %v", err)
	}
	otherID, other, err := NewToken()
	if err != nil || other == secret || otherID == id {
		t.Errorf("two tokens are the same: %v", err)
	}
	if !VerifySecret(HashSecret(secret), secret) || VerifySecret(HashSecret(secret), other) || VerifySecret([32]byte{}, "") {
		t.Error("VerifySecret is wrong")
	}
}

func TestParseTokenRefuses(t *testing.T) {
	id, secret, err := NewToken()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"nothing":         "",
		"other mark":      "gho_" + id + "_" + secret,
		"no secret":       "pil_" + id,
		"empty secret":    "pil_" + id + "_",
		"short secret":    FormatToken(id, secret[:51]),
		"long secret":     FormatToken(id, secret+"a"),
		"short id":        FormatToken(id[:15], secret),
		"swapped":         FormatToken(secret, id),
		"upper case":      strings.ToUpper(FormatToken(id, secret)),
		"white space":     FormatToken(id, secret) + "\n",
		"more parts":      FormatToken(id, secret) + "_x",
		"outside letters": FormatToken(id, secret[:51]+"1"),
		"unused bits set": FormatToken(id, secret[:51]+"b"),
	} {
		_, _, err := ParseToken(text)
		if !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v, want %v", name, err, ErrMalformed)
		}
		if err != nil && (strings.Contains(err.Error(), secret[:20]) || strings.Contains(err.Error(), strings.ToUpper(secret[:20]))) {
			t.Errorf("%s: the error repeats the secret", name)
		}
	}
}

func TestGrantCheck(t *testing.T) {
	grant, text, err := NewGrant(RolePilot, "siteA", noon, noon.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	id, secret, err := ParseToken(text)
	if err != nil || id != grant.ID {
		t.Fatal(id, err)
	}
	revoked, endless := grant, grant
	revoked.Revoked = true
	endless.Expires = time.Time{}
	for _, example := range []struct {
		name   string
		grant  Grant
		secret string
		now    time.Time
		want   error
	}{
		{"valid", grant, secret, noon, nil},
		{"last moment", grant, secret, noon.Add(time.Hour - 1), nil},
		{"expired", grant, secret, noon.Add(time.Hour), ErrExpired},
		{"without end", endless, secret, noon, ErrExpired},
		{"revoked", revoked, secret, noon, ErrRevoked},
		{"revoked and expired", revoked, secret, noon.Add(2 * time.Hour), ErrRevoked},
		{"wrong secret", grant, secret[:51] + "b", noon, ErrUnknownToken},
		{"wrong secret of a revoked one", revoked, "x", noon, ErrUnknownToken},
		{"no grant found", Grant{}, secret, noon, ErrUnknownToken},
		{"a grant without id", Grant{Hash: HashSecret("x"), Expires: noon.Add(time.Hour)}, "x", noon, ErrUnknownToken},
		{"no grant found, no secret", Grant{}, "", noon, ErrUnknownToken},
	} {
		if err := example.grant.Check(example.secret, example.now); !errors.Is(err, example.want) {
			t.Errorf("%s: got %v, want %v", example.name, err, example.want)
		}
	}
}

func TestNewGrantRefuses(t *testing.T) {
	later := noon.Add(time.Hour)
	for name, attempt := range map[string]func() error{
		"unknown role":       func() error { _, _, err := NewGrant("root", "", noon, later); return err },
		"no role":            func() error { _, _, err := NewGrant("", "siteA", noon, later); return err },
		"pilot without site": func() error { _, _, err := NewGrant(RolePilot, "", noon, later); return err },
		"bad site":           func() error { _, _, err := NewGrant(RoleSubmit, "a/b", noon, later); return err },
		"already over":       func() error { _, _, err := NewGrant(RoleAdmin, "", noon, noon); return err },
	} {
		if attempt() == nil {
			t.Errorf("%s: granted", name)
		}
	}
	for _, role := range []Role{RoleAdmin, RoleSubmit} {
		if _, _, err := NewGrant(role, "", noon, later); err != nil {
			t.Errorf("%s: %v", role, err)
		}
	}
}
