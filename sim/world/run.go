package world

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"runtime/debug"
	"time"
)

// Result is what came of a run.
type Result struct {
	Wrong    []string       // what is not as it must be
	Story    []string       // who did what when
	Trace    string         // hash of the story and of all that was sent
	Injected map[string]int // faults that have happened, by kind
	Recovery time.Duration  // from the end of the faults to the end of all work; 0: the run ended before
	Virtual  time.Duration  // that the run took
	Tasks    int
	Started  int // payloads
}

// findings is what is wrong with a run, which ends with it.
type findings struct{ wrong []string }

// givenUp ends a run.
type givenUp struct{}

func (f *findings) Errorf(format string, args ...any) {
	f.wrong = append(f.wrong, fmt.Sprintf(format, args...))
	panic(givenUp{})
}

func (f *findings) Fatalf(format string, args ...any) { f.Errorf(format, args...) }

// atOnce collects all that is wrong at one time.
type atOnce struct {
	Judge
	wrong []string
}

func (a *atOnce) Errorf(format string, args ...any) {
	a.wrong = append(a.wrong, fmt.Sprintf(format, args...))
}

// Run plays a plan to its end, or until something is wrong. What panics is wrong as well.
func Run(p Plan) (result Result) {
	found := &findings{}
	var s *storm
	func() {
		defer func() {
			switch e := recover().(type) {
			case nil, givenUp:
			default:
				found.wrong = append(found.wrong, fmt.Sprintf("panic: %v\n%s", e, debug.Stack()))
			}
		}()
		s = newStorm(found, &p)
		s.blow()
	}()
	result.Wrong = found.wrong
	if s == nil {
		return result
	}
	hash := sha256.New()
	for _, note := range s.notes {
		fmt.Fprintln(hash, note)
	}
	fmt.Fprintln(hash, s.net.Sent, s.queue.link.calls, s.queue.link.callBytes)
	result.Story, result.Trace = s.notes, hex.EncodeToString(hash.Sum(nil)[:8])
	result.Injected, result.Recovery, result.Virtual = s.injected, s.recovery, s.now()
	for _, n := range s.world.started {
		result.Started += n
	}
	result.Tasks = len(s.world.started)
	return result
}
