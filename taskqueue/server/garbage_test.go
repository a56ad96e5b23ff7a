package server

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// reluctantDeleter deletes nothing until it is well.
type reluctantDeleter struct {
	tries int
	well  bool
}

func (d *reluctantDeleter) Delete(context.Context, string, string) error {
	d.tries++
	if !d.well {
		return errors.New("method DELETE is not allowed")
	}
	return nil
}

// A storage element that does not delete is said once, tried ever more rarely, and
// said again when it does.
func TestReluctantStorageIsSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deleter := &reluctantDeleter{}
		var said bytes.Buffer
		s := &elements{config: &Config{Deleter: deleter, Log: slog.New(slog.NewTextHandler(&said, nil))}}
		s.config.Timing.Garbage = 30 * time.Second
		reluctant := make(reluctances)
		round := func() (deleted bool) {
			return !reluctant["file:///se/away"].rests() && s.deleteCopy(t.Context(), task.Replica{Site: "away", URL: "file:///se/away/a"}, "file:///se/away", "a", reluctant)
		}
		pass := func(span time.Duration) { <-time.After(span) }
		for range 24 * 120 { // a day of rounds, with several copies each
			for range 2 {
				if round() {
					t.Fatal("nothing was deleted")
				}
			}
			pass(30 * time.Second)
		}
		if lines := strings.Count(said.String(), "\n"); lines != 1 || deleter.tries > 35 || deleter.tries < 24 {
			t.Errorf("%d lines, %d tries:\n%s", lines, deleter.tries, said.String())
		}
		deleter.well = true
		pass(longestPause)
		if !round() || strings.Count(said.String(), "\n") != 2 || len(reluctant) != 0 {
			t.Errorf("afterwards:\n%s", said.String())
		}
	})
}
