package exec

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pilotage-grid/pilotage/task"
)

// A file or folder counts at least leastFile beyond the first freeFiles: an empty one
// costs the node an inode, and whoever measures it time.
const (
	leastFile = 4 * task.KiB
	freeFiles = 1000
)

// diskExcess measures the work folder and the logs, adds what open files without
// a name hold, and returns the reason when they are beyond the limit, else "".
func (a *attempt) diskExcess(nameless task.Bytes) string {
	limit := a.diskLimit()
	if limit <= 0 {
		return ""
	}
	logs := a.logged()
	used := a.diskUsed(limit) + nameless + logs
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

// leastFree is from how little free space on a payload's failure may be the disk's.
const leastFree = task.MiB

// foundDiskFull tells whether a payload that has ended had no space left on the disk,
// although it has not used what it asked for.
func (a *attempt) foundDiskFull() bool {
	free, err := a.runner.free(a.folder)
	return err == nil && free < leastFree && a.diskExcess(0) == ""
}

// FreeDisk is the free space of a folder's file system.
func FreeDisk(folder string) (task.Bytes, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(folder, &stat); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", folder, err)
	}
	return task.Bytes(stat.Bavail * uint64(stat.Bsize)), nil
}

// logged is what the payload's stdout and stderr take on the disk.
func (a *attempt) logged() (sum task.Bytes) {
	for _, s := range a.streams {
		sum += task.Bytes(s.kept.Load())
	}
	return sum
}

// diskUsed sums the allocated bytes (as du does) below the work folder, without
// inputs and counting hard links once. It ends once they are beyond the limit: so a
// payload that makes files without end does not keep it busy.
func (a *attempt) diskUsed(limit task.Bytes) task.Bytes {
	m := measurement{ctx: a.ctx, limit: limit, counted: make(map[fileID]bool, len(a.inputs))}
	for _, input := range a.inputs {
		m.counted[input.node] = true
	}
	m.below(a.folder)
	return m.used
}

// measurement is one look at a folder.
type measurement struct {
	ctx     context.Context
	limit   task.Bytes
	counted map[fileID]bool // what counts no more
	files   int
	used    task.Bytes
}

// longPath is from where on a folder is named by its descriptor: the kernel takes no
// path beyond 4,096 bytes, and a payload can make longer ones.
const longPath = 2048

// below adds what is in a folder. What cannot be read has vanished, or the payload has
// closed it to itself.
func (m *measurement) below(folder string) {
	file, err := os.OpenFile(folder, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return
	}
	defer file.Close()
	folders := m.within(file)
	if len(folder) > longPath {
		folder = fmt.Sprintf("/proc/self/fd/%d", file.Fd())
	} else {
		_ = file.Close() // not one descriptor for each level
	}
	for _, name := range folders {
		m.below(folder + "/" + name)
	}
}

// within adds the entries of a folder, some at a time, and returns the folders of them.
func (m *measurement) within(folder *os.File) (folders []string) {
	for {
		entries, err := folder.ReadDir(256)
		for _, entry := range entries {
			if m.used > m.limit || m.ctx.Err() != nil {
				return nil
			}
			m.add(entry)
			if entry.IsDir() {
				folders = append(folders, entry.Name())
			}
		}
		if err != nil {
			return folders
		}
	}
}

func (m *measurement) add(entry fs.DirEntry) {
	info, err := entry.Info()
	if err != nil {
		return
	}
	status, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return
	}
	id := fileID{status.Dev, status.Ino}
	if m.counted[id] {
		return
	}
	size := task.Bytes(status.Blocks) * 512
	if entry.IsDir() {
		size -= leastFile // what an empty one has
	} else if status.Nlink > 1 {
		m.counted[id] = true
	}
	least := task.Bytes(0)
	if m.files++; m.files > freeFiles {
		least = leastFile
	}
	m.used += max(size, least)
}
