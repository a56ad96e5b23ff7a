package dispatch

import (
	"testing"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/task"
)

// referenceTable is one site's row of 001's reference table (section 3.4):
// which files its data server holds, and how often tasks that were assigned
// there have referred to each. Whoever assigns tasks keeps it without asking:
// the site names what it has evicted since its last request along with the
// next one. The zero value is an empty site.
type referenceTable struct {
	counts map[task.FileKey]uint32
}

// Evict forgets files that the site no longer holds.
func (t *referenceTable) Evict(files ...task.FileKey) {
	for _, file := range files {
		delete(t.counts, file)
	}
}

// Assign notes that a task which reads these files was assigned to the site:
// a new file counts 1 from now on, one that was there counts one more.
func (t *referenceTable) Assign(files []matcher.FileInfo) {
	if t.counts == nil {
		t.counts = make(map[task.FileKey]uint32)
	}
	for _, file := range files {
		t.counts[file.Key]++
	}
}

// Has tells whether the site holds the file.
func (t *referenceTable) Has(file task.FileKey) bool { return t.counts[file] > 0 }

// References is r_i: the number of tasks that have referred to the file since
// the site has it, 0 if it has not.
func (t *referenceTable) References(file task.FileKey) int { return int(t.counts[file]) }

// Len is the number of files at the site.
func (t *referenceTable) Len() int { return len(t.counts) }

// TestReferenceTable follows 001, section 3.4.
func TestReferenceTable(t *testing.T) {
	var table referenceTable
	table.Assign([]matcher.FileInfo{{Key: "a"}, {Key: "b"}})
	table.Assign([]matcher.FileInfo{{Key: "b"}, {Key: "c"}})
	table.Evict("a", "never seen")
	if table.Has("a") || !table.Has("b") || table.References("b") != 2 || table.References("c") != 1 || table.Len() != 2 {
		t.Errorf("%+v", table)
	}
	table.Assign([]matcher.FileInfo{{Key: "a"}})
	if table.References("a") != 1 {
		t.Errorf("a file that comes back has %d references", table.References("a"))
	}
}
