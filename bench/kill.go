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
func (c *crew) killAtRate(ctx context.Context, sites int, perSecond float64, seed uint64) (stop func() (killed int)) {
	if perSecond <= 0 {
		return func() int { return 0 }
	}
	ctx, cancel := context.WithCancel(ctx)
	killed := 0
	var working sync.WaitGroup
	working.Go(func() {
		random := rand.New(rand.NewPCG(seed, 1))
		order := random.Perm(len(c.plots))
		for _, i := range order[:len(order)*9/10] {
			timer := time.NewTimer(time.Duration(random.ExpFloat64() / perSecond * float64(time.Second)))
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return
			}
			c.plots[i].kill()
			c.observed.killed(i%sites, i)
			killed++
		}
	})
	return func() int {
		cancel()
		working.Wait()
		return killed
	}
}
