package identity

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"
)

// newAccess gives an access file that is good at the system's clock, which is
// the one ReadAccessFile goes by.
func newAccess(t testing.TB) *AccessFile {
	t.Helper()
	id, secret, err := NewToken()
	if err != nil {
		t.Fatal(err)
	}
	certificate, _ := newAuthority(t).PEM()
	return &AccessFile{
		Version: AccessVersion, Queue: []string{"queue.example.org:7420", "[::1]:7420"}, CAPEM: string(certificate),
		Role: RolePilot, Site: "siteA", Token: FormatToken(id, secret),
		Expires: time.Now().Add(time.Hour).UTC().Truncate(time.Second),
	}
}

func TestAccessFileRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "folder", "access.json")
	want := newAccess(t)
	if err := want.Write(path); err != nil {
		t.Fatal(err)
	}
	got, err := ReadAccessFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Error("read another access file than was written")
	}
	var raw map[string]any
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, &raw); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"version", "queue", "ca_pem", "role", "site", "token", "expires"} {
		if _, found := raw[key]; !found {
			t.Errorf("key %s is missing in the file", key)
		}
	}
	if len(raw) != 7 {
		t.Errorf("%d keys in the file", len(raw))
	}
}

func TestAccessFileIsWrittenPrivateAndWhole(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0)) // the mode must not depend on it
	folder := t.TempDir()
	path := filepath.Join(folder, "access.json")
	if err := os.WriteFile(path, []byte("old"), 0o666); err != nil {
		t.Fatal(err)
	}
	access := newAccess(t)
	if err := access.Write(path); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	if err := os.MkdirAll(filepath.Join(folder, "taken", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := access.Write(filepath.Join(folder, "taken")); err == nil {
		t.Error("wrote over a folder")
	}
	access.Forget()
	if err := access.Write(path); !errors.Is(err, ErrMalformed) {
		t.Errorf("wrote an access file without token: %v", err)
	}
	if _, err := ReadAccessFile(path); err != nil {
		t.Errorf("a refused write spoiled the old file: %v", err)
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 2 {
		t.Errorf("left behind: %v", entries)
	}
}

// The kernel lets root read every file; the refusal goes by the mode bits, so
// it is the same for every user that runs this test.
func TestReadAccessFileRefusesOpenModes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "it's mine.json")
	if err := newAccess(t).Write(path); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []os.FileMode{0o640, 0o620, 0o610, 0o604, 0o602, 0o601, 0o644, 0o666, 0o777, 0o440} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		_, err := ReadAccessFile(path)
		if err == nil {
			t.Errorf("mode %04o: read", mode)
			continue
		}
		command := `chmod 600 '` + strings.ReplaceAll(path, "'", `'\''`) + `'`
		if !strings.Contains(err.Error(), command) || !strings.Contains(err.Error(), fmt.Sprintf("%04o", mode)) {
			t.Errorf("mode %04o: %v does not name mode and %s", mode, err, command)
		}
	}
	for _, mode := range []os.FileMode{0o600, 0o400} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadAccessFile(path); err != nil {
			t.Errorf("mode %04o: %v", mode, err)
		}
	}
}

func TestReadAccessFileRefusesOtherThings(t *testing.T) {
	folder := t.TempDir()
	if _, err := ReadAccessFile(filepath.Join(folder, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	if _, err := ReadAccessFile(folder); !errors.Is(err, ErrMalformed) {
		t.Errorf("folder: %v", err)
	}
	fifo := filepath.Join(folder, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadAccessFile(fifo); !errors.Is(err, ErrMalformed) {
		t.Errorf("fifo: %v", err)
	}
	large := filepath.Join(folder, "large")
	if err := os.WriteFile(large, make([]byte, maxAccessFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadAccessFile(large); !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("large file: %v", err)
	}
}

func TestAccessFileContentRefusals(t *testing.T) {
	good := newAccess(t)
	_, secret, err := ParseToken(good.Token)
	if err != nil {
		t.Fatal(err)
	}
	edit := func(change func(map[string]any)) []byte {
		encoded, err := json.Marshal(good)
		if err != nil {
			t.Fatal(err)
		}
		var raw map[string]any
		if err := json.Unmarshal(encoded, &raw); err != nil {
			t.Fatal(err)
		}
		change(raw)
		if encoded, err = json.Marshal(raw); err != nil {
			t.Fatal(err)
		}
		return encoded
	}
	set := func(key string, value any) []byte { return edit(func(raw map[string]any) { raw[key] = value }) }
	whole := edit(func(map[string]any) {})

	contents := map[string][]byte{
		"empty": nil, "not JSON": []byte("queue: x"), "torn": whole[:len(whole)-1], "two": append(whole, whole...),
		"array": []byte("[]"), "null": []byte("null"),
		"version 0": set("version", 0), "version 2": set("version", 2), "version text": set("version", "1"),
		"queue empty": set("queue", []string{}), "queue text": set("queue", "host:7420"),
		"queue without port": set("queue", []string{"host"}), "queue without host": set("queue", []string{":7420"}),
		"queue port name": set("queue", []string{"host:grpc"}), "queue port 0": set("queue", []string{"host:0"}),
		"queue port 65536": set("queue", []string{"host:65536"}),
		"ca garbage":       set("ca_pem", "garbage"), "ca number": set("ca_pem", 7),
		"role": set("role", "root"), "site": set("site", "a/b"), "pilot without site": set("site", ""),
		"token": set("token", good.Token+"x"), "token number": set("token", 7),
		"expires": set("expires", "tomorrow"), "expires zero": set("expires", "0001-01-01T00:00:00Z"),
	}
	for _, key := range []string{"version", "queue", "ca_pem", "role", "site", "token", "expires"} {
		contents["without "+key] = edit(func(raw map[string]any) { delete(raw, key) })
	}
	for name, content := range contents {
		_, err := decodeAccessFile(content, noonOf(good))
		if !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v, want %v", name, err, ErrMalformed)
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error repeats the secret", name)
		}
	}
	for name, content := range map[string][]byte{"the good one": whole, "a key of a later release": set("hint", "x")} {
		if _, err := decodeAccessFile(content, noonOf(good)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	var expired *ExpiredError
	if _, err := decodeAccessFile(whole, good.Expires); !errors.As(err, &expired) || !expired.Expired.Equal(good.Expires) {
		t.Errorf("expired: %v", err)
	}
}

func noonOf(access *AccessFile) time.Time { return access.Expires.Add(-time.Minute) }

func TestResolveAccessPath(t *testing.T) {
	for _, example := range []struct {
		name, flag string
		env        map[string]string
		want       string
	}{
		{"flag first", "f", map[string]string{"PILOTAGE_ACCESS": "e", "XDG_CONFIG_HOME": "/x", "HOME": "/h"}, "f"},
		{"then the variable", "", map[string]string{"PILOTAGE_ACCESS": "e", "XDG_CONFIG_HOME": "/x", "HOME": "/h"}, "e"},
		{"then XDG", "", map[string]string{"XDG_CONFIG_HOME": "/x", "HOME": "/h"}, "/x/pilotage/access.json"},
		{"relative XDG is ignored", "", map[string]string{"XDG_CONFIG_HOME": "x", "HOME": "/h"}, "/h/.config/pilotage/access.json"},
		{"then home", "", map[string]string{"HOME": "/h"}, "/h/.config/pilotage/access.json"},
		{"nothing known", "", nil, ""},
	} {
		got, err := ResolveAccessPath(example.flag, func(key string) string { return example.env[key] })
		if got != example.want || (err == nil) != (example.want != "") {
			t.Errorf("%s: %q, %v", example.name, got, err)
		}
	}
}
