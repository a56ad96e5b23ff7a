package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pilotage-grid/pilotage/task"
)

// The default size of a pilot's cache: 20 GiB, and never so much that the disk
// has less than a fifth of what is free now, since payloads write there too.
const (
	MaxDefaultCapacity = 20 * task.GiB
	freeShare          = 0.8
)

// DefaultCapacity returns how large a cache below dir should be when nobody
// said: 20 GiB, at most 80 % of free bytes of the disk. What an earlier cache in dir
// holds counts as free. Neither dir nor its parents need to exist.
func DefaultCapacity(dir string, free task.Bytes) (task.Bytes, error) {
	held, err := heldBytes(filepath.Join(dir, cacheFolder))
	if err != nil {
		return 0, fmt.Errorf("size the cache below %s: %w", dir, err)
	}
	return min(MaxDefaultCapacity, task.Bytes(float64(free+held)*freeShare)), nil
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
