package cache

import (
	"fmt"
	"strings"

	"github.com/pilotage-grid/pilotage/task"
)

// ParseKey checks the form of a file key that came from outside: "b3:" with 64
// lower-case hex digits, or "lfn:" with a valid logical file name.
func ParseKey(text string) (task.FileKey, error) {
	key := task.FileKey(text)
	if digest, found := key.Digest(); found && task.KeyOf("", digest) == key {
		return key, nil
	}
	name, found := strings.CutPrefix(text, "lfn:")
	if !found {
		return "", fmt.Errorf("%.80q is not a file key: expected b3: with 64 hex digits, or lfn: with a name", text)
	}
	if err := task.ValidateLFN(name); err != nil {
		return "", fmt.Errorf("file key: %w", err)
	}
	return key, nil
}
