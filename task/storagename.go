package task

import (
	"path"
	"strings"
)

// StorageName is where an attempt's output is kept on a storage element: the
// name stays scoped by the attempt for ever, so that attempts never overwrite
// each other.
func StorageName(attempt AttemptID, lfn LFN) string {
	plain := strings.NewReplacer("[", ".", "]", "", ",", "_").Replace(attempt.Task.Name())
	return path.Join(string(attempt.Task.Workflow()), plain, attempt.Suffix(), lfn.Local())
}
