package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/pilotage-grid/pilotage/task"
)

// The default size of a pilot's cache: 20 GiB, and never so much that the disk
// has less than a fifth of what is free now, since payloads write there too.
const (
	MaxDefaultCapacity = 20 * task.GiB
	freeShare          = 0.8
)

// DefaultCapacity returns how large a cache below dir should be when nobody
// said: 20 GiB, at most 80 % of the disk's free space. What an earlier cache in
// dir holds counts as free. Neither dir nor its parents need to exist.
func DefaultCapacity(dir string) (task.Bytes, error) {
	held, err := heldBytes(filepath.Join(dir, cacheFolder))
	if err != nil {
		return 0, fmt.Errorf("size the cache below %s: %w", dir, err)
	}
	existing, err := filepath.Abs(dir)
	if err != nil {
		return 0, fmt.Errorf("size the cache below %s: %w", dir, err)
	}
	for {
		var fileSystem unix.Statfs_t
		err := unix.Statfs(existing, &fileSystem)
		if err == nil {
			free := task.Bytes(fileSystem.Bavail)*task.Bytes(fileSystem.Bsize) + held
			return min(MaxDefaultCapacity, task.Bytes(float64(free)*freeShare)), nil
		}
		parent := filepath.Dir(existing)
		if !errors.Is(err, unix.ENOENT) || parent == existing {
			return 0, fmt.Errorf("free space below %s: %w", dir, err)
		}
		existing = parent
	}
}

func heldBytes(folder string) (task.Bytes, error) {
	var total task.Bytes
	err := filepath.WalkDir(folder, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.Type().IsRegular() {
			info, err := entry.Info()
			if err != nil {
				return err
			}
			total += task.Bytes(info.Size())
		}
		return nil
	})
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	return total, err
}
