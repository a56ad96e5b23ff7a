package server_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

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

var floodRate = flag.Float64("flood", 0, "for the process that floods: calls per second")

// stepBack gives all threads of this process a lower priority than the queue's: the kernel
// knows those of threads only.
func stepBack() error {
	priority, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0) // 20 less the nice value
	if err != nil {
		return err
	}
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			return err
		}
		if err := syscall.Setpriority(syscall.PRIO_PROCESS, id, min(19, 20-priority+10)); err != nil {
			return err
		}
	}
	return nil
}

// flood calls on whatever the answers are, from one identity over 4 connections. It is a
// process of its own, which takes little time from the queue: it would be on another machine.
func flood() error {
	if err := stepBack(); err != nil {
		return err
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
// first alone, then beside a ninth that calls ten times as often as all of them: RELIABILITY
// allows their p99 to double.
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
	for b.Loop() {
		most, _ := phase(0, 2*time.Second)
		_, alone := phase(most/2, floodPhase)
		flooder := exec.Command(os.Args[0], fmt.Sprintf("-flood=%f", 5*most))
		in, err := flooder.StdinPipe()
		if err != nil {
			b.Fatal(err)
		}
		flooder.Stdout = os.Stderr
		if err := flooder.Start(); err != nil {
			b.Fatal(err)
		}
		if err := json.NewEncoder(in).Encode(tokens[floodOthers]); err != nil {
			b.Fatal(err)
		}
		_ = in.Close()
		_, beside := phase(most/2, floodPhase)
		_ = flooder.Wait()
		p := func(times []time.Duration, q float64) float64 {
			return float64(times[int(q*float64(len(times)-1))].Microseconds()) / 1000
		}
		b.ReportMetric(most, "calls/s")
		b.ReportMetric(float64(failed.Load()), "failed")
		b.ReportMetric(p(alone, 0.5), "alone-p50-ms")
		b.ReportMetric(p(beside, 0.5), "beside-p50-ms")
		b.ReportMetric(p(alone, 0.99), "alone-p99-ms")
		b.ReportMetric(p(beside, 0.99), "beside-p99-ms")
	}
}
