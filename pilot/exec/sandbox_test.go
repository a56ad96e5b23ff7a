package exec

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	osexec "os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestSandboxAsPlainUser runs the tests of the sandbox as uid 65534 when they
// run as root here, as which the kernel would forgive too much.
func TestSandboxAsPlainUser(t *testing.T) {
	if os.Geteuid() != 0 {
		return // all of them run as a plain user already
	}
	folder := plainUserFolder(t)
	again := osexec.Command(reachableSelf(t, folder), "-test.run=^TestSandbox[^A]", "-test.v", "-test.count=1")
	again.Dir = "/"
	again.Env = append(os.Environ(), "TMPDIR="+folder, "HOME=/nonexistent", denials+"="+readDenials(t))
	again.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	output, err := again.CombinedOutput()
	if err != nil {
		t.Fatalf("as uid 65534: %v\n%s", err, output)
	}
	for _, test := range sandboxTests {
		if !strings.Contains(string(output), "--- PASS: "+test) {
			t.Errorf("%s did not pass as uid 65534:\n%s", test, output)
		}
	}
}

// plainUserFolder makes a folder that uid 65534 owns and can reach.
func plainUserFolder(t *testing.T) string {
	t.Helper()
	for _, base := range []string{os.TempDir(), "/tmp", "/var/tmp", "/dev/shm"} {
		if !open(base) {
			continue
		}
		folder, err := os.MkdirTemp(base, "plain-user")
		if err != nil {
			continue
		}
		t.Cleanup(func() { _ = os.RemoveAll(folder) })
		if err := os.Chown(folder, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		return folder
	}
	t.Fatal("no folder for temporary files that every user may pass through")
	return ""
}

// reachableSelf copies this program to a place that uid 65534 can reach: some
// payloads of the tests are this program.
func reachableSelf(t *testing.T, folder string) string {
	t.Helper()
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(folder, "bin", "exec.test")
	if err := errors.Join(os.Mkdir(filepath.Dir(program), 0o755), os.WriteFile(program, self, 0o755)); err != nil {
		t.Fatal(err)
	}
	return program
}

// open tells whether every user may pass through a folder and those above it.
func open(folder string) bool {
	for ; folder != "/"; folder = filepath.Dir(folder) {
		info, err := os.Stat(folder)
		if err != nil || info.Mode()&0o001 == 0 {
			return false
		}
	}
	return true
}

var sandboxTests = []string{
	"TestSandboxSaysWhatIsInForce", "TestSandboxHidesFiles", "TestSandboxHidesHomes", "TestSandboxKeepsWritesInTheWorkFolder",
	"TestSandboxHidesThePilot", "TestSandboxSparesTheOrdinary", "TestSandboxSpansNoOtherAttempt",
	"TestSandboxDoesNotConfineThePilot", "TestSandboxOff", "TestSandboxUnderTheFirstThread",
	"TestSandboxEntersAContainer", "TestSandboxEntersTheContainerOfATask", "TestSandboxLimitsTheNetwork", "TestSandboxClosesThePortsOfPilotage", "TestSandboxBoundsProcessBombs",
	"TestSandboxGivesItsOwnSharedMemory", "TestSandboxStartsWhereKeysAreUsedUp",
	"TestSandboxStopsEvilPayloads", "TestSandboxLetsPayloadsWork", "TestSandboxCountsWhatPayloadsHide",
}

// landlockInForce asks the kernel without the code under test.
func landlockInForce() bool {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	return errno == 0 && abi > 0
}

func TestSandboxSaysWhatIsInForce(t *testing.T) {
	s := newStand(t, nil)
	if level, words := s.Level(); level != Namespaces || words != "" || !slices.Contains(s.Walls().Up, "ipc") {
		t.Errorf("%s, %q where the kernel has namespaces", level, words)
	}
	s = newStand(t, byLandlock)
	on, words := s.confined()
	if on != landlockInForce() || words == "" || on && !slices.Contains(s.Walls().Up, "files") {
		t.Errorf("Sandboxed() = %v, %q; the kernel has Landlock: %v", on, words, landlockInForce())
	}
	off := newStand(t, func(c *Config) { c.Sandbox = Off })
	if on, words := off.confined(); on || !strings.Contains(words, "--sandbox off") {
		t.Errorf("Sandboxed() = %v, %q when off", on, words)
	}
}

// secrets makes a home folder with a hidden access file and other things.
func secrets(t *testing.T) (home, hidden string) {
	t.Helper()
	home = t.TempDir()
	hidden = filepath.Join(home, ".config", "pilotage")
	for path, content := range map[string]string{
		filepath.Join(hidden, "access.json"):         "token",
		filepath.Join(home, ".config", "other.conf"): "other",
		filepath.Join(home, "software", "tool"):      "tool",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return home, hidden
}

func TestSandboxHidesFiles(t *testing.T) {
	home, hidden := secrets(t)
	s := newStand(t, func(c *Config) {
		c.Sandbox, c.Hidden = OnlyLandlock, []string{hidden}
		c.Readable = []string{home}
	})
	reads := map[string]bool{ // path -> may be read
		home + "/software/tool":      true,
		home + "/.config/other.conf": true,
		hidden + "/access.json":      !landlockInForce(),
		s.cached("file", "x", 0o444): !landlockInForce(), // below the shared temporary folder
		s.cfg.LogDir:                 !landlockInForce(),
		s.cfg.WorkDir:                !landlockInForce(),
		"/etc/passwd":                true,
	}
	for path, want := range reads {
		result := s.run(s.argv("sh", "-c", `[ -d "$0" ] && exec ls "$0"; exec cat "$0"`, path))
		if result.OK != want {
			t.Errorf("reading %s: ok %v, want %v: %s", path, result.OK, want, result.Stderr)
		}
	}
	// By a link, by the way of /proc, and by moving it into the work folder.
	for _, script := range []string{
		"ln -s " + hidden + " l && cat l/access.json",
		"cat /proc/self/root" + hidden + "/access.json",
		"cat /proc/$PPID/root" + hidden + "/access.json",
		"ln " + hidden + "/access.json mine && cat mine",
		"mv " + hidden + "/access.json mine && cat mine",
		"ls " + hidden,
	} {
		if result := s.run(s.shell(script)); result.OK && landlockInForce() {
			t.Errorf("%s: printed %q", script, result.Stdout)
		}
	}
}

// Home folders are closed, whoever the pilot runs as, until a folder in them
// is named.
func TestSandboxHidesHomes(t *testing.T) {
	home, _ := secrets(t)
	t.Setenv("HOME", home)
	// The folder above is opened on purpose, so that the home folder is hidden
	// for what it is and not for lying in a temporary folder.
	above := filepath.Dir(home)
	closed := newStand(t, func(c *Config) { c.Sandbox, c.Readable = OnlyLandlock, []string{above} })
	for _, script := range []string{
		"ls " + home, "cat " + home + "/software/tool", "ls -a /root", "ls -a /home", "ls /run/user", "cat /root/probe",
		`for h in $(cut -d: -f6 /etc/passwd | grep -E '^/(home|root)'); do ls "$h" && exit 0; done; exit 1`,
	} {
		if result := closed.run(closed.shell(script)); result.OK && landlockInForce() {
			t.Errorf("%s: printed %q", script, result.Stdout)
		}
	}
	beside := newStand(t, func(c *Config) { c.Readable = []string{home + "/software"} })
	beside.runOK(beside.shell("cat " + home + "/software/tool"))
	if result := beside.run(beside.shell("cat " + home + "/.config/other.conf")); result.OK && landlockInForce() {
		t.Error("one folder of a home opened all of it")
	}
	whole := newStand(t, func(c *Config) { c.Readable = []string{home} })
	whole.runOK(whole.shell("cat " + home + "/software/tool " + home + "/.config/other.conf && ls -a " + home))
	// A daemon's account has a system folder as its home.
	t.Setenv("HOME", "/usr/sbin")
	daemon := newStand(t, nil)
	daemon.runOK(daemon.shell("ls /usr/sbin /usr/bin"))
}

func TestSandboxKeepsWritesInTheWorkFolder(t *testing.T) {
	outside := t.TempDir()
	if err := os.Chmod(outside, 0o777); err != nil {
		t.Fatal(err)
	}
	granted := t.TempDir()
	s := newStand(t, func(c *Config) {
		c.Readable = []string{outside}
		c.Writable = append(c.Writable, granted)
	})
	if err := os.WriteFile(outside+"/old", []byte("old"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, script := range []string{
		"echo x > " + outside + "/new", "echo x >> " + outside + "/old", "rm " + outside + "/old",
		"mkdir " + outside + "/d", "mv " + outside + "/old .", "truncate -s 0 " + outside + "/old",
		"echo x > /tmp/exec-test-$$", "echo x > ../sibling",
		"mkdir d && mv d " + outside, "ln -s x " + outside + "/l", "mkfifo " + outside + "/p",
	} {
		if result := s.run(s.shell(script)); result.OK && landlockInForce() {
			t.Errorf("allowed: %s", script)
		}
	}
	s.runOK(s.shell("echo x > " + granted + "/new && cat " + granted + "/new && echo x > /dev/null"))
	left, err := os.ReadDir(outside)
	if err != nil || len(left) != 1 {
		t.Errorf("outside holds %v, %v", left, err)
	}
	shared := newStand(t, func(c *Config) { c.SharedMemory = true })
	shared.runOK(shared.shell("f=/dev/shm/exec-test-$$; echo x > $f && rm $f"))
}

func TestSandboxHidesThePilot(t *testing.T) {
	s := newStand(t, nil)
	// $PPID is the pilot: each of its threads, also the one that forked the
	// payload and shares its domain, is as closed as the process.
	for _, what := range []string{"environ", "mem", "maps", "auxv", "exe", "cwd/x", "root/etc/passwd", "fdinfo/1", "stack"} {
		result := s.run(s.shell(`for d in /proc/$PPID /proc/$PPID/task/*; do
			if dd if=$d/` + what + ` of=/dev/null count=1 2>&1; then echo "$d open"; exit 0; fi; done; exit 1`))
		if result.OK {
			t.Errorf("payload opened the pilot's %s: %s", what, result.Stdout)
		}
		if !strings.Contains(string(result.Stdout), "denied") && !strings.Contains(string(result.Stdout), "not permitted") {
			t.Errorf("%s: want a denial, got %s", what, result.Stdout)
		}
	}
	if result := s.run(s.shell("kill -USR1 $PPID")); result.OK && s.sandbox != nil && s.sandbox.abi >= 6 {
		t.Error("a payload can signal the pilot")
	}
	result := s.runOK(s.shell("grep -E 'NoNewPrivs|CapEff|CapPrm|CapAmb' /proc/self/status"))
	if want := []string{"CapPrm:", "0000000000000000", "CapEff:", "0000000000000000", "CapAmb:", "0000000000000000", "NoNewPrivs:", "1"}; !slices.Equal(strings.Fields(string(result.Stdout)), want) {
		t.Errorf("privileges of a payload:\n%s", result.Stdout)
	}
}

func TestSandboxSparesTheOrdinary(t *testing.T) {
	s := newStand(t, nil)
	result := s.runOK(s.shell(`set -e
		mkdir a b; echo x > a/f; mv a/f b/g; ln b/g h; ln -s h l; cat l
		mkfifo p; (echo through > p &); cat p
		ls /usr /etc /proc/self/ > /dev/null; cat /proc/cpuinfo > /dev/null; cat /sys/kernel/mm/transparent_hugepage/enabled > /dev/null || true
		echo to-stderr > /dev/stderr; echo to-fd > /proc/self/fd/1
		t=$(mktemp); echo y > $t; sort $t; head -c 4 /dev/urandom > r
		printf '#!/bin/sh\necho own program\n' > prog; chmod 755 prog; ./prog
		awk 'BEGIN { print "awk" }'; sh -c 'kill -0 $PPID'; rm -rf a b
		cd / && cd "$HOME" && pwd > /dev/null`))
	if want := "x\nthrough\nto-fd\ny\nown program\nawk\n"; string(result.Stdout) != want {
		t.Errorf("stdout %q, want %q\nstderr %s", result.Stdout, want, result.Stderr)
	}
	// TCP is not the sandbox's business.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		connection, err := listener.Accept()
		if err == nil {
			_, _ = io.WriteString(connection, "hello\n")
			connection.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	spec := s.argv("perl", "-MIO::Socket::INET", "-e",
		`my $s = IO::Socket::INET->new("127.0.0.1:$ARGV[0]") or die $!; print <$s>`, port)
	if result := s.runOK(spec); string(result.Stdout) != "hello\n" {
		t.Errorf("got %q", result.Stdout)
	}
}

func TestSandboxSpansNoOtherAttempt(t *testing.T) {
	s := newStand(t, nil)
	ended := make(chan Result)
	spec := s.shell("echo mine > secret; mkfifo gate; echo $$ > $DOOR; read end < gate")
	go func() { ended <- s.run(spec) }()
	pids := s.heardPids()
	neighbour := s.folder(spec)
	for _, script := range []string{
		"cat " + neighbour + "/secret", "echo x > " + neighbour + "/secret", "ls " + neighbour, "ls ..",
		"cat /proc/$0/environ", "cat /proc/$0/cwd/secret", "kill -9 $0",
	} {
		result := s.run(s.argv("sh", "-c", script, strconv.Itoa(pids[0])))
		if result.OK && s.sandbox != nil && (s.sandbox.abi >= 6 || !strings.HasPrefix(script, "kill")) {
			t.Errorf("one payload could do to another: %s", script)
		}
	}
	gate, err := os.OpenFile(neighbour+"/gate", os.O_RDWR, 0) // waits for no reader, should there be none any more
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	if _, err := gate.WriteString("end\n"); err != nil {
		t.Fatal(err)
	}
	if result := <-ended; !result.OK && s.sandbox != nil {
		t.Errorf("the neighbour: %s", result.Reason)
	}
}

func TestSandboxDoesNotConfineThePilot(t *testing.T) {
	_, hidden := secrets(t)
	s := newStand(t, func(c *Config) { c.Hidden = []string{hidden} })
	for range 20 { // more than there are threads to fork from
		s.runOK(s.argv("true"))
	}
	// A thread that forked a payload ends a moment after Run returned.
	for began := time.Now(); ; runtime.Gosched() {
		restricted := restrictedThreads(t)
		if len(restricted) == 0 {
			break
		}
		if time.Since(began) > patience {
			t.Fatalf("threads of the pilot kept a payload's restrictions: %v", restricted)
		}
	}
	if _, err := os.ReadFile(hidden + "/access.json"); err != nil {
		t.Error(err)
	}
}

func restrictedThreads(t *testing.T) (restricted []string) {
	t.Helper()
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		status, err := os.ReadFile("/proc/self/task/" + thread.Name() + "/status")
		if err == nil && !strings.Contains(string(status), "NoNewPrivs:\t0") {
			restricted = append(restricted, thread.Name())
		}
	}
	return restricted
}

func TestSandboxOff(t *testing.T) {
	home, hidden := secrets(t)
	s := newStand(t, func(c *Config) { c.Sandbox, c.Hidden = Off, []string{hidden} })
	s.runOK(s.shell("cat " + hidden + "/access.json && echo x > " + home + "/new && grep -q 'NoNewPrivs:.*0' /proc/self/status"))
}

// The runtime's first thread must never carry a payload: orphans are found
// among its children, and /proc/PID is its own. Work is given to it here on
// purpose by filling all other threads.
func TestSandboxUnderTheFirstThread(t *testing.T) {
	const rounds = 64
	threads := make(chan int, rounds)
	release := make(chan struct{})
	for range rounds {
		onOwnThread(func() {
			threads <- unix.Gettid()
			<-release
		})
	}
	seen := map[int]bool{}
	for range rounds {
		id := <-threads
		if id == os.Getpid() || seen[id] {
			t.Errorf("thread %d of process %d was used, twice: %v", id, os.Getpid(), seen[id])
		}
		seen[id] = true
	}
	close(release)
}

func TestPolicySparesHiddenFolders(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"a/hidden/inside", "a/open", "b/open", "a/other/deep/secret"} {
		if err := os.MkdirAll(filepath.Join(base, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("hidden", filepath.Join(base, "a/link")); err != nil {
		t.Fatal(err)
	}
	p := policy{hidden: []string{base + "/a/hidden", base + "/a/other/deep/secret", base + "/a/not-made-yet"}}
	spared := func(root string) []string {
		var got []string
		p.spare(root, slog.New(slog.DiscardHandler), func(path string) {
			got = append(got, strings.TrimPrefix(path, base+"/"))
		})
		return got
	}
	if got, want := spared(base), []string{"a/open", "b"}; !slices.Equal(got, want) {
		t.Errorf("granted %v, want %v", got, want)
	}
	if got, want := spared(base+"/a/hidden/inside"), []string{"a/hidden/inside"}; !slices.Equal(got, want) {
		t.Errorf("a folder named on purpose: granted %v, want %v", got, want)
	}
	for i := range mostSiblings {
		if err := os.Mkdir(filepath.Join(base, "a", strconv.Itoa(i)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := spared(base), []string{"b"}; !slices.Equal(got, want) {
		t.Errorf("beside too many siblings granted %d trees, want %v", len(got), want)
	}
}

// TestSandboxStartsWhereKeysAreUsedUp: a payload makes keys until its account may have
// no more, and leaves them.
func TestSandboxStartsWhereKeysAreUsedUp(t *testing.T) {
	if os.Geteuid() == 0 {
		return // TestSandboxAsPlainUser runs it: root may have as many as it likes
	}
	t.Cleanup(func() { _, _ = unix.KeyctlInt(unix.KEYCTL_CLEAR, unix.KEY_SPEC_USER_KEYRING, 0, 0, 0) })
	const keys = `use strict; my $made = 0;
for my $size (1000, 100, 10, 1) { for (1..300) {
	for my $keyring (-4, -3) {
		my ($type, $name, $value) = ("user", "k$size-$_", "x" x $size);
		$made++ if syscall($ENV{ADD_KEY} + 0, $type, $name, $value, $size, $keyring) > 0;
	}
} }
print $made;`
	for name, with := range map[string]func(*Config){"namespaces": nil, "landlock": byLandlock} {
		t.Run(name, func(t *testing.T) {
			s := newStand(t, with)
			for range 3 {
				spec := s.shell(`perl -e "$KEYS"`)
				spec.Task.Env = map[string]string{"KEYS": keys, "ADD_KEY": strconv.Itoa(unix.SYS_ADD_KEY)}
				s.runOK(spec)
			}
			s.runOK(s.shell("true"))
		})
	}
}
