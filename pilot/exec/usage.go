package exec

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pilotage-grid/pilotage/task"
)

// glance is what a cheap look at a payload's processes shows.
type glance struct {
	processes, threads int
	resident           task.Bytes // pages that two processes share count twice
}

// glance looks at processes; those that have ended count nothing.
func (f *family) glance(pids []int) (g glance) {
	for _, pid := range pids {
		if one, err := readStat(procFolder(pid)); err == nil {
			if one.ended && one.threads > 1 { // its first thread has ended, alone
				other, _ := readStat(livingThread(pid))
				one.pages = other.pages
			}
			g.processes++
			g.threads += one.threads
			g.resident += task.Bytes(one.pages * f.page)
		}
	}
	return g
}

func procFolder(pid int) string { return "/proc/" + strconv.Itoa(pid) }

// livingThread is the folder of a thread of a process whose first thread has
// ended: its own folder tells nothing of memory and files any more.
func livingThread(pid int) string {
	folder := procFolder(pid)
	threads, _ := os.ReadDir(folder + "/task")
	for _, thread := range threads {
		if one, err := readStat(folder + "/task/" + thread.Name()); err == nil && !one.ended {
			return folder + "/task/" + thread.Name()
		}
	}
	return folder
}

type processStat struct {
	ended   bool
	parent  int
	threads int
	pages   int64 // resident
}

// readStat reads one line of the kernel: "pid (name) state parent ...", where the
// name may contain anything.
func readStat(folder string) (processStat, error) {
	const state, parent, threads, pages = 0, 1, 17, 21
	text, err := os.ReadFile(folder + "/stat")
	if err != nil {
		return processStat{}, err
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) <= pages {
		return processStat{}, errors.New("a short line")
	}
	one := processStat{ended: fields[state][0] == 'Z' || fields[state][0] == 'X'}
	one.parent, _ = strconv.Atoi(string(fields[parent])) // the kernel's numbers
	one.threads, _ = strconv.Atoi(string(fields[threads]))
	one.pages, _ = strconv.ParseInt(string(fields[pages]), 10, 64)
	return one, nil
}

// proportional is what processes have of memory, where a page that several share
// counts once among them. The kernel walks all page tables for it.
type proportional struct {
	own    task.Bytes // all but:
	shared task.Bytes // of memory that has no file on a disk and can be held without being mapped
}

// proportional measures processes. One that hides its memory from its own account
// counts with its resident size.
func (f *family) proportional(pids []int) (sum proportional) {
	for _, pid := range pids {
		folder := procFolder(pid)
		one, _ := readStat(folder)
		if one.ended && one.threads > 1 {
			folder = livingThread(pid)
			one, _ = readStat(folder)
		}
		text, err := os.ReadFile(folder + "/smaps_rollup")
		if err != nil {
			sum.own += task.Bytes(one.pages * f.page)
			continue
		}
		shared := kibOf(text, "\nPss_Shmem:")
		sum.own += kibOf(text, "\nPss:") - shared
		sum.shared += shared
	}
	return sum
}

// kibOf reads the number behind a name, 0 where the kernel does not tell it.
func kibOf(text []byte, name string) task.Bytes {
	_, rest, _ := bytes.Cut(text, []byte(name))
	number, _, _ := bytes.Cut(bytes.TrimLeft(rest, " "), []byte(" "))
	kib, _ := strconv.ParseInt(string(number), 10, 64)
	return task.Bytes(kib) * task.KiB
}

// held is what processes keep without a name in the work folder, whether they have
// it mapped or not.
type held struct {
	memory task.Bytes // files in memory: of memfd, and on mounts in memory that the payload has made
	disk   task.Bytes // open files whose last name is gone
	fault  string     // why it cannot be measured, for people
}

// heldBy looks at the open files and the mounts of a payload's processes. owner is
// the account of payloads.
func heldBy(ctx context.Context, pids []int, owner int) (sum held) {
	look := heldLook{owner: uint32(owner), seen: map[fileID]bool{}, spaces: map[string]bool{}}
	if own, err := os.Readlink("/proc/self/ns/mnt"); err == nil {
		look.spaces[own] = true
	}
	for _, pid := range pids {
		look.mounts(pid)
	}
	for _, pid := range pids {
		for _, folder := range fileTables(pid) {
			if ctx.Err() != nil {
				return look.held
			}
			look.files(folder)
		}
	}
	return look.held
}

// heldLook is one look; every file, mount and namespace counts once in it.
type heldLook struct {
	held
	owner  uint32
	seen   map[fileID]bool
	spaces map[string]bool // namespaces of mounts
	node   map[string]bool // devices that the node has mounted
}

// fileTables are the folders of a process's open files: its first thread's, and those of
// threads that have a table of their own. A thread may have a lower number than the
// first one: the kernel begins anew after the highest.
func fileTables(pid int) []string {
	folder := procFolder(pid)
	tables := []string{folder + "/fd"}
	threads, _ := os.ReadDir(folder + "/task")
	for _, thread := range threads {
		if own, _ := strconv.Atoi(thread.Name()); own != pid && !shareFiles(pid, own) {
			tables = append(tables, folder+"/task/"+thread.Name()+"/fd")
		}
	}
	return tables
}

// shareFiles asks the kernel whether two threads have one table of open files.
func shareFiles(one, other int) bool {
	const files = 2 // KCMP_FILES
	same, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(one), uintptr(other), files, 0, 0, 0)
	return errno == 0 && same == 0
}

// files adds what has no name any more. Only the kernel is asked, never a file
// system: the payload's own (FUSE) might not answer.
func (l *heldLook) files(table string) {
	entries, err := os.ReadDir(table)
	if err != nil {
		return
	}
	for _, entry := range entries {
		path := table + "/" + entry.Name()
		name, err := os.Readlink(path)
		if err != nil || !strings.HasSuffix(name, " (deleted)") {
			continue
		}
		var status unix.Statx_t
		if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_DONT_SYNC, unix.STATX_BASIC_STATS, &status); err != nil {
			continue
		}
		id := fileID{unix.Mkdev(status.Dev_major, status.Dev_minor), status.Ino}
		if status.Nlink > 0 || status.Uid != l.owner || status.Mode&unix.S_IFMT != unix.S_IFREG || l.seen[id] {
			continue
		}
		l.seen[id] = true
		size := task.Bytes(status.Blocks) * 512
		if strings.HasPrefix(name, "/memfd:") {
			l.memory += size
		} else {
			l.disk += size
		}
	}
}

// mounts adds the file systems in memory that the payload has mounted in a
// namespace of mounts.
func (l *heldLook) mounts(pid int) {
	folder := procFolder(pid)
	space, err := os.Readlink(folder + "/ns/mnt")
	if err != nil || l.spaces[space] {
		return
	}
	l.spaces[space] = true
	if l.node == nil {
		l.node = map[string]bool{}
		for _, mount := range readMounts("/proc/self") {
			l.node[mount.device] = true
		}
	}
	for _, mount := range readMounts(folder) {
		if l.node[mount.device] {
			continue
		}
		l.node[mount.device] = true // once
		switch mount.kind {
		case "ramfs":
			l.fault = "the payload mounts a ramfs, whose memory nobody can measure or bound: mount a tmpfs"
		case "tmpfs":
			l.memory += mountUsed(folder+"/root", mount.place)
		}
	}
}

// mountUsed is what a file system in memory holds. The way to it is the payload's:
// no link of it is followed, and no file system is asked about it.
func mountUsed(root, place string) task.Bytes {
	top, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(top)
	how := &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_IN_ROOT | resolveCached,
	}
	mount, err := unix.Openat2(top, strings.TrimPrefix(place, "/"), how)
	if err != nil {
		return 0
	}
	defer unix.Close(mount)
	var status unix.Statfs_t
	if unix.Fstatfs(mount, &status) != nil || status.Type != unix.TMPFS_MAGIC {
		return 0
	}
	return task.Bytes(int64(status.Blocks-status.Bfree) * status.Bsize)
}

// resolveCached is RESOLVE_CACHED (Linux 5.12): the kernel knows the way already,
// or says so. The places of mounts it always knows.
const resolveCached = 0x20

type mount struct {
	device, place, kind string
	options             string // of its file system
}

// readMounts reads a list of the kernel: "id parent device root place options
// [tags] - kind source options".
func readMounts(process string) (mounts []mount) {
	text, err := os.ReadFile(process + "/mountinfo")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		before, after, _ := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		of := strings.Fields(after)
		if len(of) > 1 && len(fields) > 4 {
			mounts = append(mounts, mount{fields[2], unquoteMount.Replace(fields[4]), of[0], of[len(of)-1]})
		}
	}
	return mounts
}

// unquoteMount undoes the kernel's writing of places.
var unquoteMount = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
