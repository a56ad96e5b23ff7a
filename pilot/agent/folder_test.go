package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOwnFolderRefusesFoldersOfOthers(t *testing.T) {
	base := t.TempDir()
	good := filepath.Join(base, "good")
	for range 2 {
		if err := ownFolder(good); err != nil {
			t.Fatal(err)
		}
	}
	open := filepath.Join(base, "open")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	linked := filepath.Join(base, "linked")
	if err := os.Symlink(good, linked); err != nil {
		t.Fatal(err)
	}
	refused := []string{open, linked}
	if os.Geteuid() == 0 {
		foreign := filepath.Join(base, "foreign")
		if err := os.Mkdir(foreign, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(foreign, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		refused = append(refused, foreign)
	}
	for _, folder := range refused {
		if err := ownFolder(folder); err == nil || !strings.Contains(err.Error(), "--cache") {
			t.Errorf("%s: %v", folder, err)
		}
	}
}
