package integration

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A pilot is killed while its payload runs, which has sent processes off into
// sessions of their own: within 10 s none is left. The logs of a payload that
// has ended before are not there any more: the queue has their ends.
func TestPayloadsDieWithTheirPilot(t *testing.T) {
	t.Parallel()
	g := newGrid(t, "siteA")
	p := g.addPilot("siteA", "--sandbox", "landlock", "--payload-user", "root") // where the numbers of processes are those of the node
	said := g.submitted("says", `tasks: {says: {shell: echo out; echo err >&2}}`)
	g.done(said)
	observe(g, "an empty folder of logs", func() (bool, bool) {
		left, err := os.ReadDir(filepath.Join(p.dir, "logs"))
		return true, err == nil && len(left) == 0
	})
	if out := g.must("task", "logs", said+"/says"); out != "out\n" {
		t.Errorf("the queue has %q of the log", out)
	}

	pids := filepath.Join(g.outside(), "pids")
	g.submitted("runs", `
tasks:
  runs:
    shell: |
      say() { echo $$ >> `+pids+`; }
      setsid sh -c 'echo $$ >> `+pids+`; exec sleep 300' &
      (setsid sh -c '(setsid sh -c "echo \$\$ >> `+pids+`; exec sleep 300" &)' &)
      (cd / && env -i setsid sh -c 'trap "" HUP TERM INT; echo $$ >> `+pids+`; sleep 300; sleep 300' >/dev/null 2>&1 </dev/null &)
      say
      sleep 300
`)
	all := observe(g, "four processes of the payload", func() ([]string, bool) {
		text, _ := os.ReadFile(pids)
		found := strings.Fields(string(text))
		return found, len(found) == 4
	})
	watched := map[string]int{}
	for _, text := range all {
		pid, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		if watched[text], err = unix.PidfdOpen(pid, 0); err != nil {
			t.Fatalf("process %d of the payload: %v", pid, err)
		}
	}
	p.kill()
	deadline := time.Now().Add(10 * time.Second)
	for pid, fd := range watched {
		ended, err := 0, error(unix.EINTR)
		for errors.Is(err, unix.EINTR) {
			ended, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(max(0, time.Until(deadline)).Milliseconds()))
		}
		if ended != 1 {
			t.Errorf("process %s outlives its pilot by 10 s: %v", pid, err)
			_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		}
		unix.Close(fd)
	}
}
