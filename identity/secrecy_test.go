package identity

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// Every way of printing and logging that a program could use by mistake.
func TestNothingPrintsASecret(t *testing.T) {
	access, key, authority := newAccess(t), newKey(t), newAuthority(t)
	_, secret, err := ParseToken(access.Token)
	if err != nil {
		t.Fatal(err)
	}
	seed := key.private.Seed()
	scalar, err := authority.key.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	forms := func(raw []byte) []string {
		decimal := strings.Trim(fmt.Sprint(raw[:8]), "[]")
		return []string{string(raw), hex.EncodeToString(raw[:8]), strings.ToUpper(hex.EncodeToString(raw[:8])), decimal, strings.ReplaceAll(decimal, " ", ", ")}
	}
	forbidden := append(forms(seed), forms(scalar)...)
	forbidden = append(forbidden, forms([]byte(secret))...)

	subjects := []any{
		access, *access, key, authority,
		MemberCertificate{DER: []byte{1}, Key: key}, &MemberCertificate{DER: []byte{1}, Key: key}, MemberCertificate{},
		struct{ Access AccessFile }{*access}, []*PilotKey{key}, struct{ Key *PilotKey }{key},
	}
	var output bytes.Buffer
	for _, subject := range subjects {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%o"} {
			fmt.Fprintf(&output, verb+"\n", subject)
		}
	}
	for _, logger := range []*slog.Logger{
		slog.New(slog.NewTextHandler(&output, nil)), slog.New(slog.NewJSONHandler(&output, nil)),
	} {
		logger.Info("subjects", "access", access, "value", *access, "key", key, "authority", authority,
			"member", MemberCertificate{Key: key})
	}
	for _, text := range forbidden {
		if strings.Contains(output.String(), text) {
			t.Errorf("a secret appears in what was printed")
		}
	}
	for _, expected := range []string{"access as pilot of site siteA", string(key.Peer())} {
		if !strings.Contains(output.String(), expected) {
			t.Errorf("what was printed should have %q", expected)
		}
	}
}

func TestForget(t *testing.T) {
	access := newAccess(t)
	access.Forget()
	if access.Token != "" {
		t.Error("the token is still there")
	}
}
