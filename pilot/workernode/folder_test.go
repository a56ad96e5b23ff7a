package workernode

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/cache/disk"
	"github.com/pilotage-grid/pilotage/task"
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

// TestPayloadsPassToANewFolder: what lies above a folder that the pilot makes lets payloads
// of another account pass.
func TestPayloadsPassToANewFolder(t *testing.T) {
	above := filepath.Join(t.TempDir(), "scratch", "site")
	if _, err := baseFolder(filepath.Join(above, "pilot")); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{above, filepath.Dir(above)} {
		if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != 0o711 {
			t.Errorf("%s is made with mode %v (%v), want 0711", folder, info.Mode(), err)
		}
	}
}

func TestFoldersOfKilledPilotsAreRemoved(t *testing.T) {
	base := t.TempDir()
	open := func(name string) *disk.Cache {
		t.Helper()
		cache, err := disk.Open(disk.Config{Dir: filepath.Join(base, name), Capacity: task.MiB})
		if err != nil {
			t.Fatal(err)
		}
		return cache
	}
	begun := func(name string, ago time.Duration) {
		t.Helper()
		at := time.Now().Add(-ago)
		if err := os.Chtimes(filepath.Join(base, name, "cache", "lock"), at, at); err != nil {
			t.Fatal(err)
		}
	}
	killed, living := open("p-killed"), open("p-living")
	defer func() { _ = living.Close() }()
	starting := open("p-starting")
	for _, cache := range []*disk.Cache{killed, starting} { // the kernel gives their locks back
		if err := cache.Close(); err != nil {
			t.Fatal(err)
		}
	}
	begun("p-killed", time.Hour)
	begun("p-living", time.Hour)
	locked := filepath.Join(base, "p-killed", "work", "attempt", "locked")
	if err := os.MkdirAll(locked, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(locked), 0); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(base, "p-of-somebody")
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	removeDeadFolders(base, slog.New(slog.DiscardHandler))
	left, err := filepath.Glob(filepath.Join(base, "*"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{filepath.Join(base, "p-living"), other, filepath.Join(base, "p-starting")}
	if !slices.Equal(left, want) {
		t.Errorf("%v are left, want %v", left, want)
	}
}
