package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pilotage-grid/pilotage/identity"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

const (
	floodOthers = 8
	floodPhase  = 5 * time.Second
)

// floodCalls is what everybody does: every other call writes.
func floodCall(ctx context.Context, c *client, key string, n int) error {
	if n%2 == 0 {
		_, err := c.ListWorkflows(ctx, &pb.ListWorkflowsRequest{PageSize: 20})
		return err
	}
	_, err := c.SubmitWorkflow(ctx, single(fmt.Sprintf("%s-%d", key, n)))
	return err
}

var floodRate = flag.Float64("flood", -1, "for the process that floods: calls per second; 0: it computes")

// stepBack has all threads of this process run only while the queue has nothing to do: the
// kernel knows the policy of threads only.
func stepBack() error {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			return err
		}
		idle := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}
		if err := unix.SchedSetAttr(id, &idle, 0); err != nil {
			return err
		}
	}
	return nil
}

// compute takes the time of all processors.
func compute(length time.Duration) {
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for end := time.Now().Add(length); time.Now().Before(end); {
				continue
			}
		})
	}
	group.Wait()
}

// flood calls on whatever the answers are, from one identity over 4 connections. It is a
// process of its own, which takes little time from the queue: it would be on another machine.
// How much it takes all the same is seen beside one that computes, and calls nothing.
func flood() error {
	if err := stepBack(); err != nil {
		return err
	}
	if *floodRate == 0 {
		compute(floodPhase)
		return nil
	}
	var access identity.AccessFile
	if err := json.NewDecoder(os.Stdin).Decode(&access); err != nil {
		return err
	}
	var clients []*client
	for range 4 {
		c, err := connect(access.Queue[0], []byte(access.CAPEM), access.Token, nil)
		if err != nil {
			return err
		}
		clients = append(clients, c)
	}
	var asked, answered atomic.Int64
	ctx, cancel := context.WithTimeout(context.Background(), floodPhase+time.Second)
	defer cancel()
	var group sync.WaitGroup
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); ctx.Err() == nil; <-tick.C {
		for float64(asked.Load()) < time.Since(began).Seconds()**floodRate && asked.Load()-answered.Load() < 20_000 {
			n := int(asked.Add(1))
			group.Go(func() {
				_ = floodCall(ctx, clients[n%len(clients)], "flood", n)
				answered.Add(1)
			})
		}
	}
	group.Wait()
	fmt.Println("asked", asked.Load())
	return nil
}

// BenchmarkFloodOfOneIdentity has eight users call at half of what the queue can do,
// first alone, then beside a process that only computes, then beside a ninth that calls ten
// times as often as all of them: RELIABILITY allows their p99 to double.
func BenchmarkFloodOfOneIdentity(b *testing.B) {
	q := start(b, onSQLite)
	admin := q.admin()
	tokens := make([]*identity.AccessFile, floodOthers+1)
	for i := range tokens {
		made, err := admin.CreateAccess(q.ctx, &pb.CreateAccessRequest{Role: "submit", Label: fmt.Sprint(i)})
		if err != nil {
			b.Fatal(err)
		}
		if err := json.Unmarshal(made.GetAccessFile(), &tokens[i]); err != nil {
			b.Fatal(err)
		}
		tokens[i].Queue = []string{q.server.Addresses().GRPC}
	}
	users := make([]*client, floodOthers)
	for i := range users {
		users[i] = q.dial(tokens[i].Token, nil)
	}
	var serial, failed atomic.Int64
	// phase has the users call at a rate together, 0: as fast as they are answered.
	phase := func(rate float64, length time.Duration) (perSecond float64, times []time.Duration) {
		var mutex sync.Mutex
		var group sync.WaitGroup
		end := time.Now().Add(length)
		for i, user := range users {
			lanes, pause := 4, time.Duration(0)
			if rate > 0 {
				lanes, pause = 1, time.Duration(float64(time.Second)*floodOthers/rate)
			}
			for range lanes {
				group.Go(func() {
					var own []time.Duration
					<-time.After(pause / floodOthers * time.Duration(i))
					var inFlight sync.WaitGroup
					for next := time.Now(); next.Before(end); next = next.Add(pause) {
						if pause == 0 {
							next = time.Now()
						}
						<-time.After(time.Until(next))
						call := func() {
							began := time.Now()
							if floodCall(q.ctx, user, "user", int(serial.Add(1))) != nil {
								failed.Add(1)
							}
							mutex.Lock()
							own = append(own, time.Since(began))
							mutex.Unlock()
						}
						if pause == 0 {
							call()
						} else {
							inFlight.Go(call)
						}
					}
					inFlight.Wait()
					mutex.Lock()
					times = append(times, own...)
					mutex.Unlock()
				})
			}
		}
		group.Wait()
		slices.Sort(times)
		return float64(len(times)) / length.Seconds(), times
	}
	// beside has the users call while the other process floods at a rate, or only computes.
	beside := func(flood, rate float64) []time.Duration {
		other := exec.Command(os.Args[0], fmt.Sprintf("-flood=%f", flood))
		access, err := json.Marshal(tokens[floodOthers])
		if err != nil {
			b.Fatal(err)
		}
		other.Stdin, other.Stdout = bytes.NewReader(access), os.Stderr
		if err := other.Start(); err != nil {
			b.Fatal(err)
		}
		_, times := phase(rate, floodPhase)
		if err := other.Wait(); err != nil {
			b.Fatal(err)
		}
		return times
	}
	for b.Loop() {
		most, _ := phase(0, 2*time.Second)
		_, alone := phase(most/2, floodPhase)
		computing := beside(0, most/2)
		flooded := beside(5*most, most/2)
		p := func(times []time.Duration, q float64) float64 {
			return float64(times[int(q*float64(len(times)-1))].Microseconds()) / 1000
		}
		b.ReportMetric(most, "calls/s")
		b.ReportMetric(float64(failed.Load()), "failed")
		b.ReportMetric(p(alone, 0.5), "alone-p50-ms")
		b.ReportMetric(p(computing, 0.5), "computing-p50-ms")
		b.ReportMetric(p(flooded, 0.5), "flood-p50-ms")
		b.ReportMetric(p(alone, 0.99), "alone-p99-ms")
		b.ReportMetric(p(computing, 0.99), "computing-p99-ms")
		b.ReportMetric(p(flooded, 0.99), "flood-p99-ms")
		b.ReportMetric(p(flooded, 0.99)/p(computing, 0.99), "flood/computing-p99")
	}
}
