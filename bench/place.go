package bench

import (
	"fmt"
	"runtime"

	"github.com/prometheus/procfs"
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
	var now *procfs.LoadAvg
	proc, err := procfs.NewDefaultFS()
	if err == nil {
		now, err = proc.LoadAvg()
	}
	if err != nil {
		return "unknown"
	}
	return fmt.Sprintf("%.2f %.2f %.2f", now.Load1, now.Load5, now.Load15)
}

// availableMemory is what may be used without taking it from others, in bytes;
// 0 when it is not known.
func availableMemory() int64 {
	var now procfs.Meminfo
	proc, err := procfs.NewDefaultFS()
	if err == nil {
		now, err = proc.Meminfo()
	}
	if err != nil || now.MemAvailableBytes == nil {
		return 0
	}
	return int64(*now.MemAvailableBytes)
}
