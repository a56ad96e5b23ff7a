package exec

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// family reads from /proc who descends from whom. A process whose parent died
// becomes a child of this process (it is their reaper), listed under its first
// thread; payloads themselves are children of other threads.
type family struct {
	adopted *os.File // children of the first thread, read again and again; nil on kernels without such lists
	page    int64
}

func openFamily() *family {
	f := &family{page: int64(os.Getpagesize())}
	self := strconv.Itoa(os.Getpid())
	if file, err := os.Open("/proc/" + self + "/task/" + self + "/children"); err == nil {
		f.adopted = file
	}
	return f
}

func (f *family) close() error {
	if f.adopted == nil {
		return nil
	}
	return f.adopted.Close()
}

// orphans lists the children of the first thread: orphaned descendants of any
// payload, and whatever else this process started or reaps.
func (f *family) orphans() []int {
	if f.adopted == nil {
		return parents()[os.Getpid()]
	}
	// The kernel promises an exact list only while no child ends: one that
	// ends during the reading can hide another. It was then listed itself, so
	// two equal readings in a row have missed nobody.
	for list := f.read(); ; {
		again := f.read()
		if slices.Equal(list, again) {
			return list
		}
		list = again
	}
}

// read reads the list of adopted children once.
func (f *family) read() []int {
	var text []byte
	buffer := make([]byte, 4096)
	for {
		n, err := f.adopted.ReadAt(buffer, int64(len(text)))
		text = append(text, buffer[:n]...)
		if n == 0 || err != nil {
			return numbers(text)
		}
	}
}

// below lists all descendants of the given processes, without these.
func (f *family) below(roots []int) []int {
	var children func(pid int) []int
	if f.adopted == nil {
		table := parents()
		children = func(pid int) []int { return table[pid] }
	} else {
		children = childrenOf
	}
	var found []int
	seen := map[int]bool{}
	for queue := roots; len(queue) > 0; queue = queue[1:] {
		for _, child := range children(queue[0]) {
			if !seen[child] {
				seen[child] = true
				found = append(found, child)
				queue = append(queue[:len(queue):len(queue)], child)
			}
		}
	}
	return found
}

// childrenOf reads the kernel's lists of one process, one per thread.
func childrenOf(pid int) []int {
	folder := "/proc/" + strconv.Itoa(pid) + "/task/"
	tasks, err := os.ReadDir(folder)
	if err != nil {
		return nil
	}
	var children []int
	for _, thread := range tasks {
		if text, err := os.ReadFile(folder + thread.Name() + "/children"); err == nil {
			children = append(children, numbers(text)...)
		}
	}
	return children
}

// parents reads all processes of the node: for kernels that keep no lists of
// children (CONFIG_PROC_CHILDREN).
func parents() map[int][]int {
	table := map[int][]int{}
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	for _, folder := range folders {
		pid, errPid := strconv.Atoi(filepath.Base(folder))
		if one, err := readStat(folder); err == nil && errPid == nil {
			table[one.parent] = append(table[one.parent], pid)
		}
	}
	return table
}

func numbers(text []byte) []int {
	var list []int
	for field := range strings.FieldsSeq(string(text)) {
		if n, err := strconv.Atoi(field); err == nil {
			list = append(list, n)
		}
	}
	return list
}
