package spawner

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// heldBySystemV sums the bytes of shared memory and the messages in the IPC namespaces of
// all processes that the calling spawner sees. A segment lives without a process
// that has it mapped, so no process's memory shows it.
func heldBySystemV() (sum int64) {
	done := make(chan int64)
	go func() {
		runtime.LockOSThread() // it changes its namespace, and is not unlocked: it ends
		var sum int64
		own, _ := os.Readlink("/proc/self/ns/ipc")
		seen := map[string]bool{own: true}
		spaces, _ := filepath.Glob("/proc/[0-9]*/ns/ipc")
		for _, path := range spaces {
			space, err := os.Readlink(path)
			if err != nil || seen[space] {
				continue
			}
			seen[space] = true
			fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				continue
			}
			err = unix.Setns(fd, unix.CLONE_NEWIPC)
			unix.Close(fd)
			if err == nil {
				sum += systemVColumn("shm", "rss") + systemVColumn("msg", "cbytes")
			}
		}
		done <- sum
	}()
	return <-done
}

// systemVColumn sums a column of a table of the calling thread's IPC namespace.
func systemVColumn(table, name string) (sum int64) {
	text, err := os.ReadFile("/proc/sysvipc/" + table)
	if err != nil {
		return 0
	}
	column := -1
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if column < 0 {
			for i, field := range fields {
				if field == name {
					column = i
				}
			}
			continue
		}
		if column < len(fields) {
			n, _ := strconv.ParseInt(fields[column], 10, 64)
			sum += n
		}
	}
	return sum
}
