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
	app := &app{stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv, interrupt: ctx.Done}
	err := newRoot(app).ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	var silent *silentError
	if !errors.As(err, &silent) {
		fmt.Fprintln(os.Stderr, "pilotage:", explain(err))
	}
	return exitCode(ctx, err)
}
