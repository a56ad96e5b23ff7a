package page

import (
	"cmp"
	"slices"

	"github.com/pilotage-grid/pilotage/task"
)

// FileReads is how a file was read, by where its bytes were.
type FileReads struct {
	LFN   string    `json:"lfn"`
	Size  int64     `json:"size"`
	Reads [4]uint64 `json:"reads"` // local, peer, storage element, remote
}

func (f *FileReads) sum() uint64 { return f.Reads[0] + f.Reads[1] + f.Reads[2] + f.Reads[3] }

const (
	// hottestFiles are shown, of at most keepFiles that are counted.
	hottestFiles = 25
	keepFiles    = 20_000
)

// FileCount counts reads by file. When there are too many files, the less read half
// is forgotten.
type FileCount map[task.LFN]*FileReads

// Add counts a read.
func (c *FileCount) Add(read task.Read) {
	if *c == nil {
		*c = make(FileCount)
	}
	f := (*c)[read.LFN]
	if f == nil {
		if len(*c) >= keepFiles {
			kept := c.hottest(keepFiles / 2)
			clear(*c)
			for i := range kept {
				(*c)[task.LFN(kept[i].LFN)] = &kept[i]
			}
		}
		f = &FileReads{LFN: string(read.LFN)}
		(*c)[read.LFN] = f
	}
	f.Size = int64(read.Size)
	if int(read.Source) < len(f.Reads) {
		f.Reads[read.Source]++
	}
}

// Hottest are the files that were read most.
func (c FileCount) Hottest() []FileReads { return c.hottest(hottestFiles) }

func (c FileCount) hottest(most int) []FileReads {
	all := make([]FileReads, 0, len(c))
	for _, f := range c {
		all = append(all, *f)
	}
	slices.SortFunc(all, func(x, y FileReads) int { return cmp.Or(cmp.Compare(y.sum(), x.sum()), cmp.Compare(x.LFN, y.LFN)) })
	return all[:min(most, len(all))]
}

// MainSource is where most of an attempt's bytes came from, as Bar tells it.
func MainSource(reads []task.Read) int {
	var bytes [4]task.Bytes // by source
	most := 0
	for i := range reads {
		at := min(int(reads[i].Source), len(bytes)-1)
		if bytes[at] += 1 + reads[i].Size; bytes[at] > bytes[most] {
			most = at
		}
	}
	return most
}
