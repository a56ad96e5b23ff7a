package bench

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// killAtRate kills so many pilots per second, at random times and drawn by the
// seed, and leaves one in ten alive. The function returned ends it and tells
// how many were killed; it may be called again.
func (o Overlay) killAtRate(ctx context.Context, pilots fleet) (stop func() (killed int)) {
	perSecond := o.KillRate * float64(o.Pilots)
	if perSecond <= 0 {
		return func() int { return 0 }
	}
	ctx, cancel := context.WithCancel(ctx)
	killed := 0
	var working sync.WaitGroup
	working.Go(func() {
		random := rand.New(rand.NewPCG(o.Seed, 1))
		order := random.Perm(o.Pilots)
		for _, i := range order[:len(order)*9/10] {
			if !pause(ctx, time.Duration(random.ExpFloat64()/perSecond*float64(time.Second))) {
				return
			}
			pilots.kill(i)
			killed++
		}
	})
	return func() int {
		cancel()
		working.Wait()
		return killed
	}
}

const (
	// settleTime is what sites get before the first master is taken, and between
	// two that are.
	settleTime = 5 * time.Second
	// hangTime is how long a master stands still after another one took office.
	hangTime = 5 * time.Second
)

// takeMasters kills masters and stops others, in turn, of one site after the
// other. A stopped one goes on a while after its successor took office. The
// function returned ends it, once all that were stopped go on, and tells how
// many were taken; it may be called again.
func (o Overlay) takeMasters(ctx context.Context, pilots fleet) (stop func() (killed, hung int)) {
	ctx, cancel := context.WithCancel(ctx)
	killed, hung := 0, 0
	var working sync.WaitGroup
	working.Go(func() {
		for n := 0; killed < o.KillMasters || hung < o.HangMasters; n++ {
			if !pause(ctx, settleTime) {
				return
			}
			pilots.collect()
			site := n % o.Sites
			master, _ := pilots.seen().master(site)
			if hung == o.HangMasters || killed < o.KillMasters && killed <= hung {
				pilots.kill(master)
				killed++
				o.say("killed pilot %d, the master of %s", master, overlaySite(site))
				pilots.seen().succession(ctx, site, master)
				continue
			}
			pilots.hang(master)
			hung++
			o.say("stopped pilot %d, the master of %s", master, overlaySite(site))
			pilots.seen().succession(ctx, site, master)
			pause(ctx, hangTime)
			pilots.resume(master)
		}
	})
	return func() (int, int) {
		cancel()
		working.Wait()
		return killed, hung
	}
}

// pause waits and tells whether ctx still stands.
func pause(ctx context.Context, lasts time.Duration) bool {
	select {
	case <-time.After(lasts):
		return true
	case <-ctx.Done():
		return false
	}
}
