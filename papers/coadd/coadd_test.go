package coadd_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/papers/coadd"
	"github.com/pilotage-grid/pilotage/task"
)

// The hashes are those of the text that the generator in Python writes, which
// was checked against every statistic of paper 001 first.
func TestBagsAreBitIdenticalToTheReference(t *testing.T) {
	for _, c := range []struct {
		shape coadd.Shape
		hash  string
	}{
		{coadd.Small(), "72b7a6e258dd8c91fad2f0158a548771e8e54ed07a201b48ab81b2de60df2ff6"},
		{coadd.Full(), "08fdfbb75717476f740424e7e6365ad90ea5d7e9a227e65526b272b92654d245"},
	} {
		hash := sha256.New()
		for _, files := range coadd.Generate(c.shape, 2006).Tasks {
			line := fmt.Sprint(files) // [1 2 3]
			_, _ = fmt.Fprintln(hash, line[1:len(line)-1])
		}
		if got := hex.EncodeToString(hash.Sum(nil)); got != c.hash {
			t.Errorf("%s: %s, want %s", c.shape.Name, got, c.hash)
		}
	}
}

// Paper 001, table 2 and figure 1(a).
func TestSmallMeetsTable2ForAnySeed(t *testing.T) {
	for _, seed := range []uint64{1, 2006} {
		bag := coadd.Generate(coadd.Small(), seed)
		degrees, least, most, sum := degreesOf(t, bag)
		if len(bag.Tasks) != 6000 || bag.Files != 53390 || least != 36 || most != 101 || sum != 470596 {
			t.Errorf("seed %d: %d tasks, %d files, %d to %d files a task, %d accesses", seed, len(bag.Tasks), bag.Files, least, most, sum)
		}
		shared := 0
		for _, d := range degrees {
			if d >= 6 {
				shared++
			}
		}
		if share := float64(shared) / float64(bag.Files); share < 0.87 || share > 0.93 {
			t.Errorf("seed %d: %.3f of the files are read by 6 tasks or more, the paper says roughly 90 %%", seed, share)
		}
	}
}

func degreesOf(t *testing.T, bag *coadd.Bag) (files []int, least, most, sum int) {
	files, least = make([]int, bag.Files), bag.Files
	for i, reads := range bag.Tasks {
		if !slices.IsSorted(reads) || len(slices.Compact(slices.Clone(reads))) != len(reads) {
			t.Fatalf("task %d reads %v", i, reads)
		}
		least, most, sum = min(least, len(reads)), max(most, len(reads)), sum+len(reads)
		for _, f := range reads {
			files[f]++
		}
	}
	return files, least, most, sum
}

func TestShuffledKeepsAllDegrees(t *testing.T) {
	bag := coadd.Generate(coadd.Small(), 2006)
	shuffled := bag.Shuffled(3)
	before, _, _, _ := degreesOf(t, bag)
	after, _, _, _ := degreesOf(t, shuffled)
	if !slices.Equal(before, after) {
		t.Error("a file is read by another number of tasks")
	}
	same := 0
	for i, reads := range shuffled.Tasks {
		if len(reads) != len(bag.Tasks[i]) {
			t.Fatalf("task %d reads %d files, not %d", i, len(reads), len(bag.Tasks[i]))
		}
		if slices.Equal(reads, bag.Tasks[i]) {
			same++
		}
	}
	if same > 0 {
		t.Errorf("%d tasks read the same files as before", same)
	}
}

func TestWorkloadPricesTasksByTheirFiles(t *testing.T) {
	bag := &coadd.Bag{Name: "x", Files: 3, Tasks: [][]int32{{0, 2}, {1}}}
	w := bag.Workload(5*task.MiB, time.Second)
	if w.Tasks[0].Runtime != 2*time.Second || w.Files[2].Size != 5*task.MiB || w.Tasks[1].Name != "t1" {
		t.Errorf("%+v", w)
	}
}
