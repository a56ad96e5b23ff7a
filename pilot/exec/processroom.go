package exec

import (
	"cmp"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// mostThreads and mostProcesses of a task for each of its cores, where the node has
	// enough of them.
	mostThreads, mostProcesses = 4096, 256
	// leastThreads a task has for each core also where that is more than its share: with
	// fewer many programs fail.
	leastThreads = 64
)

// processRoom is how many processes and threads may be started beside those that are
// there: on the node by everybody, and by the pilot with its payloads.
type processRoom struct{ node, own int }

// roomForProcesses asks the kernel, whose files are below proc: the node's numbers of
// processes and of threads, the control groups of the pilot, and the limit that payloads
// inherit unless they are root's, of whose account that many are there.
func roomForProcesses(proc string, uid, account int) processRoom {
	room := processRoom{node: math.MaxInt32, own: math.MaxInt32}
	used := 0
	if load, err := os.ReadFile(filepath.Join(proc, "loadavg")); err == nil {
		if fields := strings.Fields(string(load)); len(fields) > 3 {
			_, threads, _ := strings.Cut(fields[3], "/")
			used, _ = strconv.Atoi(threads) // 0 if the kernel does not say: half of the room is left anyway
		}
	}
	for _, name := range []string{"pid_max", "threads-max"} {
		if most, limited := readLimit(filepath.Join(proc, "sys/kernel", name)); limited {
			room.node = min(room.node, max(0, most-used))
		}
	}
	for _, group := range groupsOf(filepath.Join(proc, "self")) {
		for ; ; group.path = filepath.Dir(group.path) { // its own and those above
			if most, limited := readLimit(filepath.Join(group.folder(), "pids.max")); limited {
				used, _ := readLimit(filepath.Join(group.folder(), "pids.current"))
				room.own = min(room.own, max(0, most-used))
			}
			if group.path == "/" {
				break
			}
		}
	}
	var limit unix.Rlimit
	if uid != 0 && unix.Getrlimit(unix.RLIMIT_NPROC, &limit) == nil && limit.Cur < math.MaxInt32 {
		room.own = min(room.own, max(0, int(limit.Cur)-account))
	}
	return room
}

// readLimit reads a number; there is none where there is no file, or "max" is in it.
func readLimit(path string) (n int, limited bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err = strconv.Atoi(strings.TrimSpace(string(text)))
	return n, err == nil
}

// shareProcesses divides half of the room among cores: the other half is left to the
// pilot and to everybody else. The account as a whole, whose payloads may not be counted
// one by one, has what it had at the start and that half at most.
func (r *Runner) shareProcesses(room processRoom, account int) {
	share := min(mostThreads, room.node/2/runtime.NumCPU(), room.own/2/r.cfg.Cores)
	watch := &r.cfg.Watch
	if share < leastThreads && watch.Threads == 0 {
		r.cfg.Logger.Warn("this node lets the pilot start few processes and threads: a payload that starts many can leave it none",
			"node", room.node, "pilot", room.own, "each core", leastThreads)
	}
	watch.Threads = cmp.Or(watch.Threads, max(leastThreads, share))
	watch.Processes = cmp.Or(watch.Processes, min(mostProcesses, watch.Threads))
	r.account = account + min(watch.Threads+watch.Processes*runtime.NumCPU(), max(leastThreads, min(room.node, room.own)/2))
}
