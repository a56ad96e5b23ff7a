package exec

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/pilotage-grid/pilotage/task"
)

// walkBound is how many files one measurement looks at while the payload
// runs; the last one, after its end, looks at all.
const walkBound = 20_000

// diskExcess measures the work folder and the logs, adds what open files without
// a name hold, and returns the reason when they are beyond the limit, else "".
func (a *attempt) diskExcess(bound int, nameless task.Bytes) string {
	limit := a.diskLimit()
	if limit <= 0 {
		return ""
	}
	logs := a.logged()
	used := a.diskUsed(bound) + nameless + logs
	if used <= limit {
		return ""
	}
	of := ""
	if logs > 0 {
		of = fmt.Sprintf(" (%s of it stdout and stderr)", logs)
	}
	if nameless > 0 {
		of += fmt.Sprintf(" (%s of it open files that were removed)", nameless)
	}
	return fmt.Sprintf("disk %s%s exceeded %s, which is %g x the request of %s",
		used, of, limit, a.runner.cfg.Watch.Excess, a.spec.Task.Resources.Disk)
}

// logged is what the payload's stdout and stderr take on the disk.
func (a *attempt) logged() (sum task.Bytes) {
	for _, s := range a.streams {
		sum += task.Bytes(s.kept.Load())
	}
	return sum
}

// diskUsed sums the allocated bytes (as du does) below the work folder,
// without inputs and counting hard links once. It stops after bound files.
func (a *attempt) diskUsed(bound int) task.Bytes {
	counted := make(map[fileID]bool, len(a.inputs))
	for _, input := range a.inputs {
		counted[input.node] = true
	}
	var used task.Bytes
	visited := 0
	walk := func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return nil // vanished, or closed by the payload to itself
		}
		if visited++; visited > bound || a.ctx.Err() != nil {
			return fs.SkipAll
		}
		info, err := entry.Info()
		if err != nil {
			return nil
		}
		status, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return nil
		}
		id := fileID{status.Dev, status.Ino}
		if counted[id] {
			return nil
		}
		if status.Nlink > 1 {
			counted[id] = true
		}
		used += task.Bytes(status.Blocks) * 512
		return nil
	}
	_ = filepath.WalkDir(a.folder, walk) // walk returns no error
	return used
}
