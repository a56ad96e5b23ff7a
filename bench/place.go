package bench

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Place is where and beside what a figure was measured.
type Place struct {
	Folder     string `json:"data_folder"`
	FileSystem string `json:"file_system"`
	CPUs       int    `json:"cpus"`
	LoadBefore string `json:"load_before"` // averages of 1, 5 and 15 minutes
	LoadAfter  string `json:"load_after"`
}

// place is where a queue's bench runs, and the load before it.
func (q *queueProcess) place() (Place, error) {
	kind, err := fileSystemOf(q.folder)
	return Place{Folder: q.folder, FileSystem: kind, CPUs: runtime.NumCPU(), LoadBefore: load()}, err
}

// fileSystems names what statfs(2) numbers.
var fileSystems = map[int64]string{
	unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs", unix.TMPFS_MAGIC: "tmpfs",
	unix.OVERLAYFS_SUPER_MAGIC: "overlayfs", unix.NFS_SUPER_MAGIC: "nfs", unix.F2FS_SUPER_MAGIC: "f2fs",
}

// fileSystemOf names the file system of a folder.
func fileSystemOf(folder string) (string, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(folder, &stat); err != nil {
		return "", fmt.Errorf("the file system of %s: %w", folder, err)
	}
	if name, known := fileSystems[int64(stat.Type)]; known {
		return name, nil
	}
	return fmt.Sprintf("0x%x", stat.Type), nil
}

// load returns the load averages of 1, 5 and 15 minutes.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	fields := strings.Fields(string(text))
	return strings.Join(fields[:min(3, len(fields))], " ")
}

// availableMemory is what may be used without taking it from others, in bytes;
// 0 when it is not known.
func availableMemory() int64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		var kilobytes int64
		if _, err := fmt.Sscanf(line, "MemAvailable: %d kB", &kilobytes); err == nil {
			return kilobytes << 10
		}
	}
	return 0
}
