package live_test

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/task"
)

// Paper 004, section III-B: at most eight peers per node and broadcast, as real nodes
// count them; what a payload costs is counted on the wire.
func TestRoundOfRealNodesGoesThroughEightPeersAtMost(t *testing.T) {
	s := newLive(t)
	s.overlay.Broadcast = dht.BroadcastConfig{HopAck: 10 * time.Second, ReplyHop: 10 * time.Second} // nobody hangs
	pilots := s.join(30)
	s.settled(time.Minute, pilots)
	payload := bytes.Repeat([]byte("task list "), 10_000)
	before, most := s.carrier.SentByAll()["round"].Bytes, 0
	for n := range uint64(3) {
		done := pilots[0].ask(n+1, payload)
		if done.Reached != len(pilots) || len(done.Data) != len(pilots) {
			t.Errorf("round %d: reached %d, %d replies, want %d", n, done.Reached, len(done.Data), len(pilots))
		}
		most = max(most, done.Peers)
	}
	if most == 0 || most > 8 {
		t.Errorf("a node sent a broadcast to %d peers, want 1 to 8", most)
	}
	if perPilot := (s.carrier.SentByAll()["round"].Bytes - before) / 3 / uint64(len(pilots)); perPilot > 20_000 {
		t.Errorf("100 kB of payload cost %d bytes per pilot and round, want 20,000 at most", perPilot)
	}
}

// A tenth hangs just before the broadcast: all others get it, after repair.
func TestRoundOfRealNodesWithATenthHung(t *testing.T) {
	s := newLive(t)
	pilots := s.join(20)
	s.settled(time.Minute, pilots)
	var hung []task.PeerID
	for _, p := range []*livePilot{pilots[4], pilots[11]} {
		hung = append(hung, p.self.Peer)
		p.hang()
	}
	done := pilots[0].ask(1, []byte("who is there?"))
	missed := slices.Clone(done.Missed)
	slices.Sort(missed)
	slices.Sort(hung)
	if !slices.Equal(missed, hung) || done.Reached != len(pilots)-len(hung) {
		t.Errorf("reached %d, missed %v; want %d and %v", done.Reached, missed, len(pilots)-len(hung), hung)
	}
}

// BenchmarkLiveRound broadcasts 10 kB and gathers the replies: with all alive,
// and right after a tenth was hung, once.
func BenchmarkLiveRound(b *testing.B) {
	forSizes(b, func(b *testing.B, size int) {
		s := newLive(b)
		s.overlay = dht.Config{}
		pilots := s.join(size)
		s.settled(20*time.Minute, pilots)
		payload := make([]byte, 10_000)
		number, worst := uint64(0), time.Duration(0)
		round := func(want int) float64 {
			number++
			began := time.Now()
			done := pilots[0].ask(number, payload)
			worst = max(worst, time.Since(began))
			return float64(done.Reached) / float64(want)
		}
		round(size) // connects the hops
		worst = 0
		coverage := 1.0
		for b.Loop() {
			coverage = min(coverage, round(size))
		}
		b.ReportMetric(100*coverage, "%reached")
		b.ReportMetric(float64(worst.Milliseconds()), "worst-ms")
		left := size
		for i := 5; i < size; i += 10 {
			pilots[i].hang()
			left--
		}
		worst = 0
		b.ReportMetric(100*round(left), "%reached-a-tenth-hung")
		b.ReportMetric(float64(worst.Milliseconds()), "a-tenth-hung-ms")
	})
}

// BenchmarkLiveFailover takes the master away, as SIGKILL and as SIGSTOP do,
// and waits until everybody follows another.
func BenchmarkLiveFailover(b *testing.B) {
	forSizes(b, func(b *testing.B, size int) {
		s := newLive(b)
		s.overlay = dht.Config{}
		s.join(size)
		s.settled(20*time.Minute, s.pilots)
		for b.Loop() {
			b.ReportMetric(s.failover((*livePilot).kill).Seconds(), "killed-p99-s")
			b.ReportMetric(s.failover((*livePilot).hang).Seconds(), "hung-p99-s")
		}
	})
}

// failover takes the master away and returns after how long 99 of 100 members
// have heard of the next one.
func (s *liveSite) failover(take func(*livePilot)) time.Duration {
	s.t.Helper()
	s.mutex.Lock()
	old, epoch := s.master, s.epoch
	s.mutex.Unlock()
	began := time.Now()
	take(old)
	s.pilots = slices.DeleteFunc(s.pilots, func(p *livePilot) bool { return p == old })
	s.t.Cleanup(old.close)
	s.await(5*time.Minute, "another master at everyone", func() bool {
		return !slices.ContainsFunc(s.pilots, func(p *livePilot) bool { return p.hears().Term.Epoch <= epoch })
	})
	var delays []time.Duration
	for _, p := range s.pilots {
		p.mutex.Lock()
		delays = append(delays, p.changes[len(p.changes)-1].Sub(began))
		p.mutex.Unlock()
	}
	slices.Sort(delays)
	return delays[(len(delays)-1)*99/100]
}

// A master that was stopped is followed by another; when it goes on, the queue
// and its peers hold its term for over, and it steps down.
func TestHungMasterOfRealNodesIsFencedOnReturn(t *testing.T) {
	s := newLive(t)
	s.overlay.Beat, s.overlay.PingTimeout = 300*time.Millisecond, time.Second
	pilots := s.join(12)
	s.settled(time.Minute, pilots)
	s.mutex.Lock()
	old := s.master
	s.mutex.Unlock()
	t.Logf("another master was followed after %s", s.failover((*livePilot).hang))
	old.resume()
	s.await(time.Minute, "the old master to follow the new one", func() bool {
		return old.hears().Term.Epoch > 1 && !old.hears().Self
	})
}
