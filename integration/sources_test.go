package integration

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// noteSources lists every folder of the module, so that `go test`, which keeps
// results while what a test has read is unchanged, runs these tests again when
// the sources of the binary change: it does not see what the build reads.
func noteSources(t *testing.T) {
	t.Helper()
	if err := listSources(); err != nil {
		t.Fatal(err)
	}
}

var listSources = sync.OnceValue(func() error {
	return filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !entry.IsDir():
			return nil
		case path != ".." && strings.HasPrefix(entry.Name(), "."), entry.Name() == "bin":
			return fs.SkipDir // no sources
		}
		_, err = os.ReadDir(path)
		return err
	})
})
