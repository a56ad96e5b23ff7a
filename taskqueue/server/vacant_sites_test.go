package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// shelves is a Finder that knows what each name is worth.
type shelves map[string]error

func (s shelves) Find(_ context.Context, element, name string, _ task.Bytes, _ task.Digest) (string, error) {
	return element + "/" + name, s[name]
}

func (s shelves) List(_ context.Context, _, folder string, _ int) ([]string, error) {
	return nil, s[folder]
}

// What is there is told with its place, what is not as missing; where the element
// does not answer the rest waits.
func TestLooksEndWhereStorageDoesNotAnswer(t *testing.T) {
	v := taskqueue.Vacant{Site: "A", Element: "http://se/A"}
	answers := shelves{}
	for i, answer := range []error{nil, fmt.Errorf("%w: other bytes", ErrNotThere), errors.New("it is away"), nil} {
		f := task.File{LFN: task.LFN(fmt.Sprintf("w-a:f%d", i)), Producer: task.AttemptID{Task: "w-a/t", Generation: 1, Lease: 1, Pilot: "p", Counter: uint64(i)}}
		v.Files = append(v.Files, f)
		answers[task.StorageName(f.Producer, f.LFN)] = answer
	}
	s := &elements{config: &Config{Finder: answers, Log: slog.New(slog.DiscardHandler)}}
	found, missing := s.lookFor(t.Context(), &v)
	if len(found) != 1 || found[0].LFN != "w-a:f0" || found[0].URL != "http://se/A/"+task.StorageName(v.Files[0].Producer, "w-a:f0") {
		t.Errorf("found %v", found)
	}
	if len(missing) != 1 || missing[0].LFN != "w-a:f1" {
		t.Errorf("missing %v", missing)
	}
}
