package manysites

import (
	"math"
	"slices"
	"time"
)

// HandOut is tasks that a site was given with one call.
type HandOut struct {
	At    time.Duration // when the queue answered
	Tasks int
	// Took is from the master's call to the answer in its hands. A call that the
	// queue parked because it had nothing waits in it.
	Took time.Duration
	// Cost is the processor time of the queue's rules for the call.
	Cost time.Duration
}

// Sample is how things stand at a moment, and what happened since the sample
// before.
type Sample struct {
	At       time.Duration
	Busy     int // slots that run a payload
	Done     int // accepted outcomes, of all time
	Requests int
	Handed   int
	HandOuts int
	Delay    time.Duration // mean
	Cost     time.Duration // of the queue's rules
}

// Result is how a run came out.
type Result struct {
	Makespan    time.Duration
	FirstFill   time.Duration // until every slot has run something; 0: some never did
	Filled      int           // slots that have
	Requests    int           // by masters
	Submissions int           // calls of the submitting client
	Rounds      int
	Handed      int
	HandOuts    []HandOut
	Delays      int // of them
	DelaySum    time.Duration
	DelayClass  [32]int       // by power of two of milliseconds: class 0 is below 1 ms
	Computing   time.Duration // of all payloads
	Occupation  float64       // computing time over makespan and slots
	Served      time.Duration // virtual time that the queue's server worked on calls
	Cost        time.Duration // processor time of the queue's rules
	SubmitCost  time.Duration // of it, for submissions
	Samples     []Sample
	Events      uint64
}

func (r *Result) delay(d time.Duration) {
	r.Delays++
	r.DelaySum += d
	class := 0
	if ms := d / time.Millisecond; ms > 0 {
		class = min(int(math.Log2(float64(ms)))+1, len(r.DelayClass)-1)
	}
	r.DelayClass[class]++
}

// MeanDelay is the mean time between two payloads of a slot.
func (r *Result) MeanDelay() time.Duration {
	if r.Delays == 0 {
		return 0
	}
	return r.DelaySum / time.Duration(r.Delays)
}

// Quantile of values of the hand-outs.
func (r *Result) Quantile(q float64, of func(*HandOut) float64) float64 {
	if len(r.HandOuts) == 0 {
		return 0
	}
	values := make([]float64, len(r.HandOuts))
	for i := range r.HandOuts {
		values[i] = of(&r.HandOuts[i])
	}
	slices.Sort(values)
	return values[int(q*float64(len(values)-1))]
}

// sample notes how things stand.
func (w *world) sample() {
	r, before := &w.sums, w.noted
	now := sums{r.Requests, w.done, r.Handed, len(r.HandOuts), r.DelaySum, r.Delays, r.Cost}
	s := Sample{
		At: w.timeline.Now(), Busy: w.busy, Done: w.done, Requests: now.requests - before.requests,
		Handed: now.handed - before.handed, HandOuts: now.handOuts - before.handOuts, Cost: now.cost - before.cost,
	}
	if n := now.delayed - before.delayed; n > 0 {
		s.Delay = (now.delays - before.delays) / time.Duration(n)
	}
	r.Samples = append(r.Samples, s)
	w.noted = now
	if w.config.Noted != nil {
		w.config.Noted(s)
	}
}

func (w *world) result() *Result {
	r := &w.sums
	r.Makespan, r.Events = w.timeline.Now(), w.timeline.Events()
	if r.Makespan > 0 {
		r.Occupation = r.Computing.Seconds() / r.Makespan.Seconds() / float64(w.config.Sites*w.config.Pilots)
	}
	return r
}
