package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// listing is a Finder whose storage elements answer what they are told to.
type listing struct {
	shelves
	asked map[string]int
}

func (l listing) List(_ context.Context, element, _ string, _ int) ([]string, error) {
	l.asked[element]++
	return []string{"a/"}, l.shelves[element]
}

// A storage element that does not list its folders is said once and asked once an
// hour; one that is away is asked ever more rarely, and listed when it is back.
func TestElementsThatDoNotListAreHardlyAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		finder := listing{shelves{"plain": fmt.Errorf("%w: 405", ErrNotListed), "away": errors.New("it is away")}, make(map[string]int)}
		s := &elements{config: &Config{Finder: finder, Log: slog.New(slog.NewTextHandler(&said, nil))}}
		s.config.Timing.Garbage = 30 * time.Second
		u := &untold{s, make(reluctances), make(map[task.WorkflowID]place)}
		for range 24 * 120 { // a day of rounds
			for element, answer := range map[string]error{"plain": ErrNotListed, "away": finder.shelves["away"], "good": nil} {
				names, err := u.list(t.Context(), &taskqueue.Folder{Element: element})
				if !errors.Is(err, answer) || answer == nil && len(names) != 1 {
					t.Fatalf("%s: %v, %v", element, names, err)
				}
			}
			<-time.After(30 * time.Second)
		}
		if lines := strings.Count(said.String(), "\n"); lines != 2 || finder.asked["plain"] > 24 || finder.asked["away"] > 35 || finder.asked["good"] != 24*120 {
			t.Errorf("%d lines, asked %v:\n%s", lines, finder.asked, said.String())
		}
		delete(finder.shelves, "away")
		<-time.After(time.Hour)
		if names, err := u.list(t.Context(), &taskqueue.Folder{Element: "away"}); err != nil || len(names) != 1 || u.reluctant["away"] != nil {
			t.Errorf("back again: %v, %v", names, err)
		}
	})
}
