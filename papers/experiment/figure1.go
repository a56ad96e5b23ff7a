package experiment

import (
	"slices"

	"github.com/pilotage-grid/pilotage/papers/coadd"
	"github.com/pilotage-grid/pilotage/sim"
	"github.com/pilotage-grid/pilotage/sim/chart"
)

// figure1 shows the workload (001, figure 1): how many files are read by how
// many tasks, and how much more often pairs of files are read together than by
// chance.
func figure1(l *lab001) []*chart.Figure {
	readers := readersOf(l.bags[0][inSkyOrder])
	counts := make([]int, 0, 16)
	for _, tasks := range readers {
		for len(counts) <= len(tasks) {
			counts = append(counts, 0)
		}
		counts[len(tasks)]++
	}
	a := &chart.Figure{
		Name: "fig1a", Title: "Fig. 1a: files by their readers", X: "at least so many tasks", Y: "% of the files",
		Series: []chart.Series{{Name: "Coadd-like"}},
	}
	for least := range counts {
		at := 0
		for _, n := range counts[least:] {
			at += n
		}
		a.Series[0].Points = append(a.Series[0].Points, chart.Point{X: float64(least), Y: 100 * float64(at) / float64(len(readers))})
	}
	b := &chart.Figure{
		Name: "fig1b", Title: "Fig. 1b: pairs of files read together, by chance = 1", X: "pair, by rank", Y: "actual / expected",
		Series: []chart.Series{{Name: "Coadd-like"}},
	}
	for i, ratio := range pairRatios(l.bags[0][inSkyOrder], readers) {
		if i%10 == 0 {
			b.Series[0].Points = append(b.Series[0].Points, chart.Point{X: float64(i), Y: ratio})
		}
	}
	return []*chart.Figure{a, b}
}

func readersOf(bag *coadd.Bag) [][]int32 {
	readers := make([][]int32, bag.Files)
	for t, files := range bag.Tasks {
		for _, f := range files {
			readers[f] = append(readers[f], int32(t))
		}
	}
	return readers
}

// pairRatios draws 1,000 pairs of files that some task reads both and gives, in
// order, the number of tasks that read both over the number expected by chance.
func pairRatios(bag *coadd.Bag, readers [][]int32) []float64 {
	random := sim.Random(1, "pairs")
	var ratios []float64
	for len(ratios) < 1000 {
		files := bag.Tasks[random.IntN(len(bag.Tasks))]
		i, j := files[random.IntN(len(files))], files[random.IntN(len(files))]
		if i == j {
			continue
		}
		both := 0
		for _, t := range readers[i] {
			if _, found := slices.BinarySearch(readers[j], t); found {
				both++
			}
		}
		expected := float64(len(readers[i])) * float64(len(readers[j])) / float64(len(bag.Tasks))
		ratios = append(ratios, float64(both)/expected)
	}
	slices.Sort(ratios)
	slices.Reverse(ratios)
	return ratios
}
