package coadd

// The windows end less than minWidth and more than maxWidth tasks wide only
// where they did before the corrections.
const minWidth, maxWidth = 6, 13

// correct moves single ends of windows until every published number is met.
func (s *sky) correct() {
	s.cut()
	s.lift()
	s.level()
	s.stretch(s.shape.Most, true)
	s.stretch(s.shape.Least, false)
}

// cut takes accesses from tasks that read too many files, where a window
// begins or ends at the task.
func (s *sky) cut() {
	for range 4 {
		for i := range s.files {
			f := &s.files[i]
			if s.load[f.from] > s.shape.Most && f.width() > minWidth {
				s.load[f.from]--
				f.from++
				s.total--
			}
			if s.load[f.to] > s.shape.Most && f.width() > minWidth {
				s.load[f.to]--
				f.to--
				s.total--
			}
		}
	}
}

// lift extends windows of neighbours to tasks that read too few files.
func (s *sky) lift() {
	ending, beginning := make(map[int][]int), make(map[int][]int)
	for i, f := range s.files {
		ending[f.to] = append(ending[f.to], i)
		beginning[f.from] = append(beginning[f.from], i)
	}
	move := func(at map[int][]int, from, to int) int {
		list := at[from]
		i := list[len(list)-1]
		at[from] = list[:len(list)-1]
		at[to] = append(at[to], i)
		s.load[to]++
		s.total++
		return i
	}
	for t := range s.tasks {
		column := s.columnOf(t)
		for s.load[t] < s.shape.Least {
			if t-1 >= column.from && len(ending[t-1]) > 0 {
				s.files[move(ending, t-1, t)].to = t
			} else if t+1 <= column.to && len(beginning[t+1]) > 0 {
				s.files[move(beginning, t+1, t)].from = t
			} else {
				break
			}
		}
	}
}

// level brings the number of accesses to its value by moving ends at random.
func (s *sky) level() {
	for s.total != s.shape.Accesses {
		f := &s.files[s.random.below(len(s.files))]
		left := s.random.below(2) == 1
		width, column := f.width(), s.columnOf(f.from)
		if s.total > s.shape.Accesses {
			end, step := &f.to, -1
			if left {
				end, step = &f.from, 1
			}
			if width <= minWidth || s.load[*end] <= s.shape.Least {
				continue
			}
			s.load[*end]--
			*end += step
			s.total--
			continue
		}
		end, step := &f.to, 1
		if left {
			end, step = &f.from, -1
		}
		t := *end + step
		if width < minWidth || width >= maxWidth || t < column.from || t > column.to || s.load[t] >= s.shape.Most {
			continue
		}
		*end = t
		s.load[t]++
		s.total++
	}
}

// stretch makes the most extreme task read exactly as many files as wanted, by
// sliding windows of its neighbours to it or away from it.
func (s *sky) stretch(want int, largest bool) {
	t := s.extreme(largest)
	column := s.columnOf(t)
	more := s.load[t] < want
	for i := range s.files {
		if s.load[t] == want {
			return
		}
		f := &s.files[i]
		switch {
		case more && f.to == t-1 && f.width() > minWidth && s.load[f.from] > s.shape.Least+1:
			s.slide(f, 1)
		case more && f.from == t+1 && f.width() > minWidth && s.load[f.to] > s.shape.Least+1:
			s.slide(f, -1)
		case !more && f.to == t && f.from-1 >= column.from && s.load[f.from-1] < s.shape.Most-1:
			s.slide(f, -1)
		case !more && f.from == t && f.to+1 <= column.to && s.load[f.to+1] < s.shape.Most-1:
			s.slide(f, 1)
		}
	}
}

func (s *sky) slide(f *span, step int) {
	if step > 0 {
		s.load[f.from]--
		s.load[f.to+1]++
	} else {
		s.load[f.to]--
		s.load[f.from-1]++
	}
	f.from += step
	f.to += step
}
