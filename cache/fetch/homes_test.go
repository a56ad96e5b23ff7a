package fetch

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/cache/wire"
	"github.com/pilotage-grid/pilotage/task"
)

// table is one desk and some clients on fake time, with messages that arrive
// at once unless the desk is deaf.
type table struct {
	desk    *Desk
	deaf    atomic.Bool
	homeIs  task.PeerID
	clients map[task.PeerID]*HomesClient
}

// newTable runs the desk of "home" until the bubble's test calls the function.
func newTable(peers ...task.PeerID) (*table, func()) {
	b := &table{homeIs: "home", clients: map[task.PeerID]*HomesClient{}}
	b.desk = NewDesk(func(to task.PeerID, data []byte) { b.clients[to].Handle("home", data) })
	for _, p := range peers {
		home := func(task.FileKey) (task.PeerID, bool) { return b.homeIs, b.homeIs != "" }
		b.clients[p] = NewHomes(Holder{Peer: p, DataURL: "https://10.0.0.1:1"}, home, func(to task.PeerID, data []byte) {
			if to == "home" && !b.deaf.Load() {
				b.desk.Handle(p, data)
			}
		})
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.desk.Run(ctx) }()
	return b, func() {
		cancel()
		<-ended
	}
}

type asked struct {
	answer Answer
	err    error
	after  time.Duration
	waited int
}

// ask asks in the background.
func (b *table) ask(ctx context.Context, peer task.PeerID, tried ...task.PeerID) <-chan asked {
	result, start := make(chan asked, 1), time.Now()
	go func() {
		waited := 0
		answer, err := b.clients[peer].Ask(ctx, Question{Key: "lfn:f", Tried: tried, Waiting: func() { waited++ }})
		result <- asked{answer, err, time.Since(start), waited}
	}()
	return result
}

const file = task.FileKey("lfn:f")

func TestAskWaitsForTheReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, stop := newTable("a", "b")
		defer stop()
		if first := <-b.ask(t.Context(), "a"); first.answer.Verdict != cache.Granted || first.err != nil {
			t.Fatalf("%+v", first)
		}
		second := b.ask(t.Context(), "b")
		for range 5 { // longer than the grant, which progress renews
			<-time.After(4 * time.Second) // fake time: the read's own pace
			b.clients["a"].Renew(file)
		}
		b.clients["a"].Finish(file, cache.Arrived)
		got := <-second
		if got.err != nil || got.answer.Verdict != cache.PointedTo || len(got.answer.Holders) != 1 || got.answer.Holders[0].Peer != "a" {
			t.Errorf("%+v", got)
		}
		if got.after != 20*time.Second || got.waited < 2 {
			t.Errorf("answered after %s, told to wait %d times", got.after, got.waited)
		}
	})
}

func TestGrantEndsWithoutProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, stop := newTable("a", "b")
		defer stop()
		<-b.ask(t.Context(), "a")
		if got := <-b.ask(t.Context(), "b"); got.answer.Verdict != cache.Granted || got.after != 10*time.Second {
			t.Errorf("%+v", got)
		}
	})
}

func TestSilentAndUnknownHome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, stop := newTable("a", "b")
		defer stop()
		b.deaf.Store(true)
		if got := <-b.ask(t.Context(), "a"); !errors.Is(got.err, cache.ErrSilentHome) || got.after > 3*time.Second {
			t.Errorf("%+v", got)
		}
		b.homeIs = ""
		if got := <-b.ask(t.Context(), "a"); !errors.Is(got.err, cache.ErrNoHome) {
			t.Errorf("%+v", got)
		}
		b.homeIs = "home"
		b.deaf.Store(false)
		<-b.ask(t.Context(), "a")
		waiting := b.ask(t.Context(), "b")
		synctest.Wait()
		b.deaf.Store(true) // it dies while somebody waits
		if got := <-waiting; !errors.Is(got.err, cache.ErrSilentHome) || got.after > 15*time.Second {
			t.Errorf("%+v", got)
		}
	})
}

// A grant that nobody wants any more goes to the next at once.
// Who is asked and knows a nearer home grants nothing: the asker, who is told of that
// one, asks it.
func TestAHomeThatKnowsANearerOneGrantsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, stop := newTable("a")
		defer stop()
		var redirected atomic.Int32
		b.desk.Redirect = func(asker task.PeerID, key task.FileKey) bool {
			return redirected.Add(1) == 1 && asker == "a" && key == file
		}
		if got := <-b.ask(t.Context(), "a"); got.answer.Verdict != cache.Granted || redirected.Load() != 2 || got.after != 700*time.Millisecond {
			t.Errorf("%+v after %d redirections", got, redirected.Load())
		}
	})
}

func TestWithdrawnQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, stop := newTable("a", "b", "c")
		defer stop()
		<-b.ask(t.Context(), "a")
		ctx, cancel := context.WithCancel(t.Context())
		second := b.ask(ctx, "b")
		synctest.Wait()
		third := b.ask(t.Context(), "c")
		synctest.Wait()
		cancel()
		if got := <-second; !errors.Is(got.err, context.Canceled) {
			t.Errorf("%+v", got)
		}
		b.clients["a"].Finish(file, cache.ReadFailed) // b gets the grant and refuses it
		if got := <-third; got.answer.Verdict != cache.Granted || got.after != 0 {
			t.Errorf("%+v", got)
		}
		b.desk.PeerGone("c")
		if got := <-b.ask(t.Context(), "a"); got.answer.Verdict != cache.Granted {
			t.Errorf("after the reader died: %+v", got)
		}
	})
}

// Only the home that was asked is believed, and only about the question asked.
func TestForgedAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, stop := newTable("a", "b")
		defer stop()
		<-b.ask(t.Context(), "a")
		waiting := b.ask(t.Context(), "b")
		synctest.Wait()
		client := b.clients["b"]
		client.Handle("stranger", wire.Answer(cache.Answer{Key: file, Number: 1, Verdict: cache.Granted}))
		client.Handle("home", wire.Answer(cache.Answer{Key: file, Number: 9, Verdict: cache.Granted}))
		client.Handle("home", wire.Answer(cache.Answer{Key: "lfn:g", Number: 1, Verdict: cache.Granted}))
		client.Handle("home", []byte("a{"))
		client.Handle("home", nil)
		synctest.Wait()
		select {
		case got := <-waiting:
			t.Fatalf("a forged answer counts: %+v", got)
		default:
		}
		b.clients["a"].Finish(file, cache.Arrived)
		if got := <-waiting; got.answer.Verdict != cache.PointedTo {
			t.Errorf("%+v", got)
		}
	})
}

func TestNothingHappensAfterRun(t *testing.T) {
	f := New(Config{Settings: func() task.SiteSettings { return task.SiteSettings{} }})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := f.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Stage(t.Context(), []task.File{{LFN: "vo:x"}}); !errors.Is(err, ErrStopped) {
		t.Errorf("got %v", err)
	}
}
