package exec

import (
	"context"
	"os"
	osexec "os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkTrue measures one payload from the call of Run to its return and
// the release of its folder, at each level by turns and against os/exec: the load of
// the machine is the same for all.
func BenchmarkTrue(b *testing.B) {
	type way struct {
		name      string
		run       func()
		took, cpu time.Duration
	}
	ways := []*way{{name: "os-exec", run: func() {
		if err := osexec.Command("/bin/true").Run(); err != nil {
			b.Fatal(err)
		}
	}}}
	for _, level := range []struct {
		name string
		mode SandboxMode
	}{{"open", Off}, {"landlock", OnlyLandlock}, {"namespaces", Auto}} {
		s := newStand(b, func(c *Config) {
			*c = Config{WorkDir: c.WorkDir, LogDir: c.LogDir, Site: c.Site, Guests: Guests{Sandbox: level.mode}}
		})
		ways = append(ways, &way{name: level.name, run: func() {
			result := s.runOK(s.argv("/bin/true"))
			if err := s.Release(result.Folder); err != nil {
				b.Fatal(err)
			}
		}})
	}
	for b.Loop() {
		for _, w := range ways {
			began, used := time.Now(), cpuTime(b)
			w.run()
			w.took, w.cpu = w.took+time.Since(began), w.cpu+cpuTime(b)-used
		}
	}
	for _, w := range ways {
		b.ReportMetric(float64(w.took.Microseconds())/float64(b.N), "us/"+w.name)
		b.ReportMetric(float64(w.cpu.Microseconds())/float64(b.N), "cpu-us/"+w.name)
	}
}

// BenchmarkWatch measures the looks at a payload of three processes of which one
// has 256 MiB: that of each second at most at processes and memory, and those at
// disk and open files. A payload of that kind is looked at four times a second at
// first, and once a second later.
func BenchmarkWatch(b *testing.B) {
	s := newStand(b, func(c *Config) {
		*c = Config{WorkDir: c.WorkDir, LogDir: c.LogDir, Site: c.Site, Guests: Guests{Writable: c.Writable}}
	})
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan Result)
	spec := s.shell(`sleep 300 & perl -e 'my $x = "x" x (256 << 20); open D, ">", $ENV{DOOR}; syswrite D, "$$\n"; sleep 300'; true`)
	go func() { ended <- s.Run(ctx, spec, nil) }()
	s.heard()
	pids := s.family.below([]int{os.Getpid()})
	for name, look := range map[string]func(){
		"processes": func() { s.family.glance(s.family.below([]int{os.Getpid()})) },
		"memory":    func() { s.family.proportional(pids) },
		"files":     func() { heldBy(ctx, pids, os.Geteuid()) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				look()
			}
		})
	}
	cancel()
	<-ended
}

// cpuTime is what this process and its ended children have used.
func cpuTime(b *testing.B) time.Duration {
	var sum int64
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var used unix.Rusage
		if err := unix.Getrusage(who, &used); err != nil {
			b.Fatal(err)
		}
		sum += used.Utime.Nano() + used.Stime.Nano()
	}
	return time.Duration(sum)
}

// BenchmarkTrueFourSlots measures the rate of four slots together.
func BenchmarkTrueFourSlots(b *testing.B) {
	s := newStand(b, func(c *Config) {
		*c = Config{WorkDir: c.WorkDir, LogDir: c.LogDir, Site: c.Site}
	})
	b.SetParallelism(2) // times GOMAXPROCS
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			result := s.run(s.argv("/bin/true"))
			if !result.OK {
				b.Error(result.Reason)
			}
			if err := s.Release(result.Folder); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "payloads/s")
}
