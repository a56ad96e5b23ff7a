package dispatch

import "github.com/pilotage-grid/pilotage/task"

// library numbers files and tasks and knows which tasks read a file, so that
// a file that comes or goes costs as much as it has readers.
type library struct {
	size    func(File) float64 // what a file counts
	ids     map[task.FileKey]int32
	sizes   []float64
	readers [][]int32
	tasks   []libraryTask
}

type libraryTask struct {
	no    uint64
	files []int32
	size  float64 // of all files together
}

func newLibrary(size func(File) float64) *library {
	return &library{size: size, ids: make(map[task.FileKey]int32)}
}

// add numbers a task and returns its number.
func (l *library) add(t Task) int32 {
	number := int32(len(l.tasks))
	added := libraryTask{no: t.No, files: make([]int32, len(t.Files))}
	for i, file := range t.Files {
		id, known := l.ids[file.Key]
		if !known {
			id = int32(len(l.sizes))
			l.ids[file.Key] = id
			l.sizes = append(l.sizes, l.size(file))
			l.readers = append(l.readers, nil)
		}
		added.files[i] = id
		added.size += l.sizes[id]
		l.readers[id] = append(l.readers[id], number)
	}
	l.tasks = append(l.tasks, added)
	return number
}

// holding is a site's row of the reference table (001, section 3.4),
// with what follows from it for every task.
type holding struct {
	library    *library
	references []uint32  // r_i by file, 0 when the site has not got it
	overlap    []float64 // by task: |F_t|, in what files count
	ref        []float64 // by task: ref_t
}

// grow takes in files and tasks that were added to the library.
func (h *holding) grow() {
	if missing := len(h.library.sizes) - len(h.references); missing > 0 {
		h.references = append(h.references, make([]uint32, missing)...)
	}
	for number := len(h.overlap); number < len(h.library.tasks); number++ {
		overlap, ref := 0.0, 0.0
		for _, file := range h.library.tasks[number].files {
			if r := h.references[file]; r > 0 {
				overlap += h.library.sizes[file]
				ref += float64(r) * h.library.sizes[file]
			}
		}
		h.overlap, h.ref = append(h.overlap, overlap), append(h.ref, ref)
	}
}

func (h *holding) evict(files []task.FileKey) {
	for _, key := range files {
		file, known := h.library.ids[key]
		if !known || h.references[file] == 0 {
			continue
		}
		size := h.library.sizes[file]
		for _, reader := range h.library.readers[file] {
			h.overlap[reader] -= size
			h.ref[reader] -= size * float64(h.references[file])
		}
		h.references[file] = 0
	}
}

func (h *holding) assign(number int32) {
	for _, file := range h.library.tasks[number].files {
		size := h.library.sizes[file]
		for _, reader := range h.library.readers[file] {
			h.ref[reader] += size
			if h.references[file] == 0 {
				h.overlap[reader] += size
			}
		}
		h.references[file]++
	}
}

// missing is what the site lacks of a task's files.
func (h *holding) missing(number int32) float64 {
	return h.library.tasks[number].size - h.overlap[number]
}
