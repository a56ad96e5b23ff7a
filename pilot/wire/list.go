package wire

import (
	"fmt"
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/task"
)

// listed are tasks of the list by columns, since most are alike in most of them: a
// column has a value for each task, or one for all, or none where all are zero. Of a task
// travels what expressions may look at.
type listed struct {
	First      uint64  // number of the first task
	Steps      []int64 // to the number of each next one
	Versions   []uint64
	Classes    []uint32
	IDs        []task.ID // of each task
	Resources  []task.Resources
	Priorities []int
	Walltimes  []time.Duration
	Bounds     []task.Bound
	Inputs     []uint32 // how many files each task reads
	Names      []task.LFN
	Sizes      []task.Bytes
	Sources    []uint32
	Keys       []task.FileKey // "" is a key that is made of the name
}

// column makes one of n values.
func column[T comparable](n int, value func(int) T) []T {
	alike, zero := true, *new(T)
	out := make([]T, n)
	for i := range out {
		out[i] = value(i)
		alike = alike && out[i] == out[0]
	}
	switch {
	case n == 0 || alike && out[0] == zero:
		return nil
	case alike:
		return out[:1]
	}
	return out
}

// values returns what reads a column of n values.
func values[T any](in []T, n int, what string, err *error) func(int) T {
	switch {
	case len(in) == 0:
		return func(int) (zero T) { return zero }
	case len(in) == 1:
		return func(int) T { return in[0] }
	case len(in) != n && *err == nil:
		*err = fmt.Errorf("%d %s of %d", len(in), what, n)
	}
	return func(i int) T { return in[i] }
}

func toListed(list *[]*matcher.ListEntry) listed {
	all := *list
	n := len(all)
	if n == 0 {
		return listed{}
	}
	out := listed{First: all[0].No, IDs: make([]task.ID, n)}
	var files []*matcher.FileInfo
	for i, entry := range all {
		out.IDs[i] = entry.Task.ID
		for k := range entry.Files {
			files = append(files, &entry.Files[k])
		}
	}
	// The subtraction wraps around, so that any numbers come back as they were.
	out.Steps = column(n-1, func(i int) int64 { return int64(all[i+1].No - all[i].No) })
	out.Versions = column(n, func(i int) uint64 { return all[i].Version })
	out.Classes = column(n, func(i int) uint32 { return all[i].Class })
	out.Resources = column(n, func(i int) task.Resources { return all[i].Task.Resources })
	out.Priorities = column(n, func(i int) int { return all[i].Task.Priority })
	out.Walltimes = column(n, func(i int) time.Duration { return all[i].Task.Walltime })
	out.Bounds = column(n, func(i int) task.Bound { return all[i].Task.Bound })
	out.Inputs = column(n, func(i int) uint32 { return uint32(len(all[i].Files)) })
	out.Names = make([]task.LFN, len(files))
	for i, file := range files {
		out.Names[i] = file.LFN
	}
	out.Sizes = column(len(files), func(i int) task.Bytes { return files[i].Size })
	out.Sources = column(len(files), func(i int) uint32 { return uint32(files[i].Source) })
	out.Keys = column(len(files), func(i int) task.FileKey {
		if files[i].Key == task.KeyOf(files[i].LFN, task.Digest{}) {
			return ""
		}
		return files[i].Key
	})
	return out
}

func fromListed(in *listed) ([]*matcher.ListEntry, error) {
	n, m := len(in.IDs), len(in.Names)
	if n == 0 && m == 0 {
		return nil, nil
	}
	var err error
	steps := values(in.Steps, n-1, "steps", &err)
	versions := values(in.Versions, n, "versions", &err)
	classes := values(in.Classes, n, "classes", &err)
	resources := values(in.Resources, n, "resources", &err)
	priorities := values(in.Priorities, n, "priorities", &err)
	walltimes := values(in.Walltimes, n, "walltimes", &err)
	bounds := values(in.Bounds, n, "bounds", &err)
	inputs := values(in.Inputs, n, "numbers of inputs", &err)
	sizes := values(in.Sizes, m, "sizes", &err)
	sources := values(in.Sources, m, "sources", &err)
	keys := values(in.Keys, m, "keys", &err)
	if err != nil {
		return nil, err
	}
	files := make([]matcher.FileInfo, m)
	for i := range files {
		files[i] = matcher.FileInfo{Key: keys(i), LFN: in.Names[i], Size: sizes(i), Source: task.Source(sources(i))}
		if files[i].Key == "" {
			files[i].Key = task.KeyOf(in.Names[i], task.Digest{})
		}
	}
	out, number := make([]*matcher.ListEntry, n), in.First
	for i := range out {
		if i > 0 {
			number += uint64(steps(i - 1))
		}
		reads := int(inputs(i))
		if reads > len(files) {
			return nil, fmt.Errorf("%d inputs, but %d files", reads, len(files))
		}
		out[i] = &matcher.ListEntry{No: number, Version: versions(i), Class: classes(i), Task: &task.Task{
			ID: in.IDs[i], Resources: resources(i), Priority: priorities(i), Walltime: walltimes(i), Bound: bounds(i),
		}}
		if reads > 0 {
			out[i].Files = files[:reads:reads]
		}
		files = files[reads:]
	}
	if len(files) > 0 {
		return nil, fmt.Errorf("%d files that no task reads", len(files))
	}
	return out, nil
}
