package exec

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPayloadsReachTheirFolder has a work folder below one that only the pilot may enter:
// payloads of another account would all fail there, and the refusal names the folder.
func TestPayloadsReachTheirFolder(t *testing.T) {
	top := t.TempDir()
	closed := filepath.Join(top, "closed")
	work := filepath.Join(closed, "pilot", "work")
	if err := os.MkdirAll(work, 0o711); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{filepath.Dir(top), top} {
		if err := os.Chmod(folder, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	other, own := &Account{UID: 65533, GID: 65533}, &Account{UID: os.Geteuid(), GID: os.Getegid()}
	if err := mayEnter(other, work); err != nil {
		t.Errorf("an open way: %v", err)
	}
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := mayEnter(other, work); err == nil || !strings.Contains(err.Error(), closed+":") {
		t.Errorf("a closed folder on the way: %v", err)
	}
	if err := mayEnter(own, work); err != nil {
		t.Errorf("the owner's: %v", err)
	}
	_, err := New(Config{WorkDir: work, LogDir: filepath.Join(top, "logs"), PayloadUser: other, Guests: Guests{Sandbox: OnlyLandlock}})
	if err == nil || !strings.Contains(err.Error(), closed) {
		t.Errorf("a runner below it: %v", err)
	}
}
