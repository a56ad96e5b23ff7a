package gate_test

import (
	"testing"
	"testing/synctest"

	"github.com/pilotage-grid/pilotage/taskqueue/store/internal/gate"
)

func TestCloseWaitsForThoseInside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate.Gate
		for range 2 {
			if !g.Enter() {
				t.Fatal("a new gate must be open")
			}
		}
		closed := make(chan bool)
		go func() { closed <- g.Close() }()
		synctest.Wait()
		if g.Enter() {
			t.Error("somebody got in after Close began")
		}
		for range 2 {
			select {
			case <-closed:
				t.Error("Close did not wait")
			default:
			}
			g.Leave()
			synctest.Wait()
		}
		if !<-closed {
			t.Error("the first Close was not told so")
		}
		if g.Close() {
			t.Error("the second Close took itself for the first")
		}
	})
}
