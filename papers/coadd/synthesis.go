package coadd

import "slices"

// Shape is what a bag must meet.
type Shape struct {
	Name     string
	Columns  int // independent strips of sky
	Fields   int // adjacent fields a column, one task each
	Extra    int // further fields of the last column
	Files    int
	Accesses int // sum of files read over all tasks
	// Least and Most files that one task reads.
	Least, Most int
	// Widths gives in hundredths how many adjacent tasks read a file.
	Widths []Width
	// DepthMin and DepthMax bound how often a field was observed.
	DepthMin, DepthMax int
}

// Width is a number of adjacent tasks with its share in hundredths.
type Width struct{ Tasks, Percent int }

// Small are the first 6,000 tasks, with which paper 001 experiments (table 2):
// 53,390 files, 36 to 101 files a task, 78.4327 on average.
func Small() Shape {
	return Shape{
		Name: "coadd6000", Columns: 16, Fields: 375, Files: 53390, Accesses: 470596, Least: 36, Most: 101,
		Widths: []Width{{3, 3}, {4, 3}, {5, 4}, {8, 18}, {9, 32}, {10, 27}, {11, 13}}, DepthMin: 5, DepthMax: 11,
	}
}

// Full is the whole workload (001, section 2.1): 44,000 tasks, 588,900 files,
// 36 to 181 files a task, 124 on average.
func Full() Shape {
	return Shape{
		Name: "coadd44000", Columns: 60, Fields: 733, Extra: 20, Files: 588900, Accesses: 5456000, Least: 36, Most: 181,
		Widths:   []Width{{3, 3}, {4, 3}, {5, 4}, {8, 12}, {9, 22}, {10, 26}, {11, 19}, {12, 11}},
		DepthMin: 5, DepthMax: 19,
	}
}

// span is the tasks that read a file, both ends included.
type span struct{ from, to int }

func (s span) width() int { return s.to - s.from + 1 }

// sky is a bag in the making.
type sky struct {
	shape   Shape
	random  *random
	tasks   int
	columns []span // tasks of each column, both ends included
	files   []span
	load    []int // files a task
	total   int   // accesses
}

// observe lays out observing runs: each covers adjacent fields of a column and
// has one file a field, which the tasks in a window around the field read.
func observe(shape Shape, seed uint64) *sky {
	s := &sky{shape: shape, random: &random{seed}, tasks: shape.Columns*shape.Fields + shape.Extra}
	s.load = make([]int, s.tasks)
	widths := make([]int, 0, 100)
	for _, w := range shape.Widths {
		for range w.Percent {
			widths = append(widths, w.Tasks)
		}
	}
	for c := range shape.Columns {
		column := span{c * shape.Fields, (c+1)*shape.Fields - 1}
		if c == shape.Columns-1 {
			column.to = s.tasks - 1
		}
		s.columns = append(s.columns, column)
	}
	for c, column := range s.columns {
		files := shape.Files*(c+1)/shape.Columns - shape.Files*c/shape.Columns
		depths := s.depths(column.width(), files)
		for layer := range shape.DepthMax {
			s.layer(column, depths, layer, widths)
		}
	}
	return s
}

// depths draws how often each field of a column was observed: a slow walk drawn
// back to the mean, then corrected to the exact number of files.
func (s *sky) depths(fields, files int) []int {
	mean, sum := files/fields, 0
	depths := make([]int, 0, fields)
	value := mean
	for len(depths) < fields {
		for range min(8+s.random.below(25), fields-len(depths)) {
			depths = append(depths, value)
			sum += value
		}
		value += 1 - s.random.below(3)
		switch {
		case value < mean-2:
			value++
		case value > mean+2:
			value--
		}
		value = max(s.shape.DepthMin, min(s.shape.DepthMax, value))
	}
	for sum != files {
		start, length, step := s.random.below(fields), 10+s.random.below(40), -1
		if sum < files {
			step = 1
		}
		for q := start; q < min(start+length, fields) && sum != files; q++ {
			if d := depths[q] + step; d >= s.shape.DepthMin && d <= s.shape.DepthMax {
				depths[q] = d
				sum += step
			}
		}
	}
	return depths
}

// layer adds the runs that observed their fields for the (layer+1)th time, 20
// to 99 adjacent fields a run, with one width and offset of windows each.
func (s *sky) layer(column span, depths []int, layer int, widths []int) {
	for q := 0; q < len(depths); {
		if depths[q] <= layer {
			q++
			continue
		}
		end := q + 20 + s.random.below(80)
		width := widths[s.random.below(100)]
		after := (width - 1) / 2
		if width%2 == 0 {
			after += s.random.below(2)
		}
		before := width - 1 - after
		for ; q < len(depths) && depths[q] > layer && q < end; q++ {
			file := span{max(column.from, column.from+q-before), min(column.to, column.from+q+after)}
			s.files = append(s.files, file)
			for t := file.from; t <= file.to; t++ {
				s.load[t]++
			}
			s.total += file.width()
		}
	}
}

func (s *sky) columnOf(t int) span {
	return s.columns[min(t/s.shape.Fields, len(s.columns)-1)]
}

// extreme finds the first task with the largest or smallest load.
func (s *sky) extreme(largest bool) int {
	if largest {
		return slices.Index(s.load, slices.Max(s.load))
	}
	return slices.Index(s.load, slices.Min(s.load))
}
