package exec

import (
	osexec "os/exec"
	"testing"
	"time"
)

// BenchmarkTrue measures one payload from the call of Run to its return and
// the release of its folder, against os/exec in the same run.
func BenchmarkTrue(b *testing.B) {
	for name, mode := range map[string]SandboxMode{"sandboxed": Auto, "open": Off} {
		b.Run(name, func(b *testing.B) {
			s := newStand(b, func(c *Config) {
				*c = Config{WorkDir: c.WorkDir, LogDir: c.LogDir, Site: c.Site, Sandbox: mode}
			})
			var ours, plain time.Duration
			for b.Loop() {
				began := time.Now()
				if err := osexec.Command("/bin/true").Run(); err != nil {
					b.Fatal(err)
				}
				plain += time.Since(began)
				began = time.Now()
				result := s.runOK(s.argv("/bin/true"))
				if err := s.Release(result.Folder); err != nil {
					b.Fatal(err)
				}
				ours += time.Since(began)
			}
			b.ReportMetric(float64(ours.Microseconds())/float64(b.N), "us/payload")
			b.ReportMetric(float64(plain.Microseconds())/float64(b.N), "us/os-exec")
			b.ReportMetric(float64(ours)/float64(plain), "ratio")
		})
	}
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
