package bench

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

// Pattern is how the tasks of the second step depend on those of the first
// (004, section 4).
type Pattern string

// The patterns: every task writes one file.
const (
	Serial    Pattern = "serial"    // N/2 tasks, then N/2 that read the file of one each
	Splitting Pattern = "splitting" // N/3 tasks, then 2N/3: each file is read by two
	Merging   Pattern = "merging"   // 2N/3 tasks, then N/3 that read the files of two each
)

// steps returns how many tasks each step has.
func (p Pattern) steps(tasks int) (first, second int, err error) {
	if tasks < 3 {
		return 0, 0, fmt.Errorf("%d tasks are too few for two steps: give 3 at least", tasks)
	}
	switch p {
	case Serial:
		first = tasks / 2
		return first, first, nil
	case Splitting:
		first = tasks / 3
		return first, 2 * first, nil
	case Merging:
		second = tasks / 3
		return 2 * second, second, nil
	}
	return 0, 0, fmt.Errorf("workflow %q: there are serial, splitting and merging", p)
}

// reads lists which tasks of the first step a task of the second one reads.
func (p Pattern) reads(second int) []int {
	switch p {
	case Splitting:
		return []int{second / 2}
	case Merging:
		return []int{2 * second, 2*second + 1}
	}
	return []int{second}
}

// twoStep makes the workflow of a pattern. Task times vary by 30 % around the
// usual one, drawn from the seed; they are the last argument of the command, so
// that real payloads and those in memory take the same time.
func twoStep(p Pattern, tasks int, usual time.Duration, seed uint64, payload command) (submission, error) {
	first, second, err := p.steps(tasks)
	if err != nil {
		return submission{}, err
	}
	random := rand.New(rand.NewPCG(seed, uint64(tasks)))
	w := submission{name: fmt.Sprintf("%s-%d", p, tasks)}
	add := func(step string, n int, inputs []int) {
		lasts := usual.Seconds() * (0.7 + 0.6*random.Float64())
		name := fmt.Sprintf("%s[%07d]", step, n)
		t := smallTask(name, payload(fileOf(step, n), lasts)...)
		t.Retries, t.Outputs = 100, []*pb.Binding{{Lfn: fileOf(step, n), Name: "out"}}
		for i, from := range inputs {
			t.Inputs = append(t.Inputs, &pb.Binding{Lfn: fileOf("first", from), Name: "in." + strconv.Itoa(i)})
		}
		w.tasks = append(w.tasks, t)
	}
	for n := range first {
		add("first", n, nil)
	}
	for n := range second {
		add("second", n, p.reads(n))
	}
	return w, nil
}

// command is a task's: what it writes, and how many seconds it takes.
type command func(file string, lasts float64) []string

// payloads returns the command of every task. That of a process writes a file
// as large as those in memory are, and like no other.
func (o Overlay) payloads() command {
	return func(file string, lasts float64) []string {
		words := []string{"/bin/sleep"}
		if o.Transport == TransportProcesses {
			words = []string{"/bin/sh", "-c", fmt.Sprintf(`sleep "$1" && printf '%%-%ds' "$0" >out`, int64(o.FileSize)), file}
		}
		return append(words, strconv.FormatFloat(lasts, 'f', 6, 64))
	}
}

func fileOf(step string, n int) string { return fmt.Sprintf("%s.%07d", step, n) }
