package experiment

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/papers/cluster"
	"github.com/pilotage-grid/pilotage/sim"
	"github.com/pilotage-grid/pilotage/task"
)

// blast is the mixed benchmark of 000 (V-C): Blastx and Blastn in one queue
// each, each reading its own set of files.
type blast struct {
	blastx, blastn int
	share          float64 // Blastn's computing time over Blastx's
	penalty        float64 // by which reading remotely lengthens a Blastn task
	seconds        float64 // Blastx's mean computing time, calibrated
	order          submission
}

// submission is the order in which the tasks of the mix are submitted, which the
// paper does not give.
type submission uint8

const (
	blastxFirst submission = iota
	blastnFirst
	mixedUp // at random
	submissions
)

func (s submission) String() string {
	return [...]string{"Blastx first", "Blastn first", "mixed at random"}[s]
}

const (
	blastxPenalty = 0.1728 // 000, section II
	blastFIFO     = 266.9  // seconds, what is calibrated on
	// spreadOfQueries is the standard deviation of the logarithm of computing
	// times within a kind.
	spreadOfQueries = 0.5
)

// mix is what is taken where the paper is silent.
var mix = blast{blastx: 20, blastn: 40, share: 0.25, penalty: 4}

func (b blast) config(seed uint64) cluster.Config {
	c := testbed()
	// A second of remote reading is so many bytes more than a second of local.
	gap := 1/cardSpeed - 1/localSpeed
	c.Files = []cluster.File{
		{Size: task.Bytes(blastxPenalty * b.seconds / gap), Holders: []int{0, 1}},
		{Size: task.Bytes(b.penalty * b.share * b.seconds / gap), Holders: []int{2, 3}},
	}
	random := sim.Random(seed, "queries")
	add := func(queue string, file, count int, mean float64) {
		for range count {
			length := mean * math.Exp(spreadOfQueries*random.NormFloat64()-spreadOfQueries*spreadOfQueries/2)
			c.Tasks = append(c.Tasks, cluster.Task{Queue: queue, Files: []int{file}, Compute: time.Duration(length * float64(time.Second))})
		}
	}
	add("blastx", 0, b.blastx, b.seconds)
	add("blastn", 1, b.blastn, b.seconds*b.share)
	switch b.order {
	case blastnFirst:
		c.Tasks = append(slices.Clone(c.Tasks[b.blastx:]), c.Tasks[:b.blastx]...)
	case mixedUp:
		random.Shuffle(len(c.Tasks), func(i, j int) { c.Tasks[i], c.Tasks[j] = c.Tasks[j], c.Tasks[i] })
	}
	c.KeepBars = seed == 0
	return c
}

// calibrate finds the computing time with which FIFO alone takes the paper's.
func (b blast) calibrate(o Options) (blast, error) {
	b.seconds = 25
	for range 8 {
		runs, err := o.play(torque, b.config)
		if err != nil {
			return b, err
		}
		off := blastFIFO / runs.average(seconds)
		b.seconds *= off
		if math.Abs(off-1) < 1e-4 {
			break
		}
	}
	return b, nil
}

// sweep runs the mix under schedulers.
func (b blast) sweep(o Options, settings ...scheduling) (map[string]sample, error) {
	runs := make(map[string]sample)
	for _, s := range settings {
		var err error
		if runs[s.name], err = o.play(s, b.config); err != nil {
			return nil, fmt.Errorf("blast: %w", err)
		}
	}
	return runs, nil
}

// settings000 are the schedulers of figure 7, and ours.
func settings000() []scheduling {
	settings := []scheduling{torque, greedy}
	for _, beta := range betas000 {
		for _, delay := range delays000 {
			settings = append(settings, dad(beta, delay))
		}
	}
	return settings
}

var (
	betas000  = []float64{0, 0.8, 1}
	delays000 = []int{0, 1, 2, 3, 4}
)

func (b blast) rowName(i int) string {
	if i < b.blastx {
		return fmt.Sprintf("Blastx %d", i+1)
	}
	return fmt.Sprintf("Blastn %d", i-b.blastx+1)
}
