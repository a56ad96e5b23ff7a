package node

import (
	"context"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/libp2p/go-libp2p/p2p/net/swarm"
)

// A member is known to be gone only if each of its addresses says so.
func TestWhichDialsAreRefused(t *testing.T) {
	closed := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	errorsOf := func(causes ...error) error {
		dialled := &swarm.DialError{Cause: swarm.ErrAllDialsFailed}
		for _, cause := range causes {
			dialled.DialErrors = append(dialled.DialErrors, swarm.TransportError{Cause: cause})
		}
		return fmt.Errorf("connect: %w", dialled)
	}
	skipped := &swarm.DialError{DialErrors: []swarm.TransportError{{Cause: closed}}, Skipped: 1}
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"connected":                  {nil, false},
		"its port is closed":         {errorsOf(closed), true},
		"both its ports are closed":  {errorsOf(closed, closed), true},
		"one of them did not answer": {errorsOf(closed, context.DeadlineExceeded), false},
		"it did not answer":          {errorsOf(context.DeadlineExceeded), false},
		"nothing was tried":          {errorsOf(), false},
		"more than is listed":        {skipped, false},
		"closed in memory":           {fmt.Errorf("dial: %w", syscall.ECONNREFUSED), true},
	} {
		if got := refused(c.err); got != c.want {
			t.Errorf("%s: refused is %v", name, got)
		}
	}
}
