package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pilotage-grid/pilotage/dht/node"
)

// A pilot says that it reaches the others if most of those do that had time to
// try, and says nothing if none had.
func TestJudgeTrial(t *testing.T) {
	refused := fmt.Errorf("p2 cannot connect: %w", node.ErrUnreachable)
	busy := fmt.Errorf("p3: %w", node.ErrBusy)
	for _, c := range []struct {
		answers       []error
		told, reached bool
		reasons       int
	}{
		{nil, false, false, 0},
		{[]error{busy, busy}, false, false, 0},
		{[]error{nil}, true, true, 0},
		{[]error{nil, busy, busy}, true, true, 0},
		{[]error{nil, nil, refused}, true, true, 0},
		{[]error{nil, refused}, true, false, 1},
		{[]error{nil, context.DeadlineExceeded, refused, errors.New("no route to host")}, true, false, 2},
	} {
		var answers []probeAnswer
		for _, err := range c.answers {
			answers = append(answers, probeAnswer{"p", err})
		}
		told, reached, reason := judgeTrial(answers)
		reasons := strings.Count(reason, ";") + 1
		if reason == "" {
			reasons = 0
		}
		if told != c.told || reached != c.reached || reasons != c.reasons {
			t.Errorf("%v: told %v, reached %v, %q", c.answers, told, reached, reason)
		}
	}
}
