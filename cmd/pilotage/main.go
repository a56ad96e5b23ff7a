// Command pilotage is the whole of Pilotage in one binary: the task queue, a
// pilot, and the tools of users, VO operators and site admins. It wires the
// packages together and decides nothing itself.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// version is set by the linker.
var version = "dev"

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second Ctrl-C kills at once. A second SIGTERM does not: batch systems
	// and job scripts send it several times to a pilot that is draining.
	context.AfterFunc(ctx, func() { signal.Reset(os.Interrupt) })
	app := &app{out: &console{stdout: legibleOn(os.Stdout), stderr: legibleOn(os.Stderr)}, getenv: os.Getenv}
	err := execute(ctx, newRoot(app))
	if app.endProfile != nil {
		app.endProfile()
	}
	if err == nil {
		return exitOK
	}
	code := exitCode(ctx, err)
	var silent *silentError
	switch {
	case errors.As(err, &silent):
	case code == exitInterrupted:
		fmt.Fprintln(app.out.stderr, "pilotage: interrupted:", explain(err))
	default:
		fmt.Fprintln(app.out.stderr, "pilotage:", explain(err))
	}
	return code
}
