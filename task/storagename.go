package task

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"path"
	"strings"
)

var plainly = strings.NewReplacer("[", ".", "]", "", ",", "_")

// StorageName is where an attempt's output is kept on a storage element: the
// name stays scoped by the attempt for ever, so that attempts never overwrite
// each other. Whatever names a task and its outputs may have, a storage element
// can keep it: the end of a task's name that is too long is a hash.
func StorageName(attempt AttemptID, lfn LFN) string {
	plain := plainly.Replace(attempt.Task.Name())
	if len(plain) > MaxSegment {
		sum := sha256.Sum256([]byte(plain))
		end := "-" + hex.EncodeToString(sum[:8])
		plain = plain[:MaxSegment-len(end)] + end
	}
	return path.Join(string(attempt.Task.Workflow()), plain, attempt.Suffix(), lfn.Local())
}

// TaskFolder is the folder that holds what attempts of a task have stored, each in
// a folder that has the name of its AttemptID.Suffix.
func TaskFolder(id ID) string {
	return path.Dir(path.Dir(StorageName(AttemptID{Task: id}, "file")))
}

// StoredFile is the file that a StorageName is of: only its local name may have
// several parts. It is empty for what is no such name.
func StoredFile(name string) LFN {
	parts := strings.SplitN(name, "/", 4)
	if len(parts) < 4 {
		return ""
	}
	return Qualify(WorkflowID(parts[0]), parts[3])
}

// CopyName is the StorageName that the URL of a copy ends with, on whatever storage
// element it is; empty for a place where no attempt can have stored anything.
func CopyName(copied string) string {
	parsed, err := url.Parse(copied)
	if err != nil {
		return ""
	}
	for rest := parsed.Path; rest != ""; {
		segment, after, _ := strings.Cut(rest, "/")
		if _, err := ParseWorkflowID(segment); err == nil && StoredFile(rest) != "" {
			return rest
		}
		rest = after
	}
	return ""
}
