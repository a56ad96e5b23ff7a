package live_test

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/dht/memnet/live"
)

// liveSizes are those of sites of real nodes. Run one with
//
//	go test ./dht/memnet/live -run '^$' -bench 'Live.*/1500' -benchtime 1x -timeout 30m
var liveSizes = []int{100, 250, 500, 1500, 5000}

func forSizes(b *testing.B, bench func(b *testing.B, size int)) {
	for _, size := range liveSizes {
		b.Run(fmt.Sprint(size), func(b *testing.B) { bench(b, size) })
	}
}

// BenchmarkLiveJoin has a site's nodes join one after the other, until all
// have the same roster, and looks at what they cost then: memory, goroutines,
// and the processor time of a second in which nothing is asked of them.
func BenchmarkLiveJoin(b *testing.B) {
	forSizes(b, func(b *testing.B, size int) {
		for range b.N {
			goroutines, memory := runtime.NumGoroutine(), residentBytes(b)
			s := newLive(b)
			s.overlay = dht.Config{}
			began, cpu := time.Now(), processorTime(b)
			pilots := s.join(size)
			b.ReportMetric(time.Since(began).Seconds(), "started-s")
			s.settled(20*time.Minute, pilots)
			b.ReportMetric(time.Since(began).Seconds(), "joined-s")
			b.ReportMetric((processorTime(b) - cpu).Seconds(), "join-cpu-s")
			b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/float64(size), "goroutines/node")
			for i, when := range []string{"at-first", "later"} {
				<-time.After(time.Duration(20*i) * time.Second)
				sent, cpu := s.sent(), processorTime(b)
				<-time.After(idleTime)
				b.ReportMetric((processorTime(b)-cpu).Seconds()/idleTime.Seconds(), "idle-"+when+"-cpu-s/s")
				b.ReportMetric(float64(s.sent().Messages-sent.Messages)/idleTime.Seconds(), "idle-"+when+"-msg/s")
			}
			b.ReportMetric(float64(residentBytes(b)-memory)/1e6, "rss-MB")
			b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/float64(size), "idle-goroutines/node")
			b.StopTimer()
			s.close()
			b.StartTimer()
		}
	})
}

const idleTime = 10 * time.Second

func (s *liveSite) sent() live.Traffic {
	var sum live.Traffic
	for _, traffic := range s.carrier.SentByAll() {
		sum.Messages += traffic.Messages
		sum.Bytes += traffic.Bytes
	}
	return sum
}

// processorTime is what this process has used so far.
func processorTime(t testing.TB) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// residentBytes is the memory of this process.
func residentBytes(t testing.TB) int64 {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kilobytes, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes << 10
}
