package exec

import (
	"fmt"
	"net"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pilotage-grid/pilotage/task"
)

// evil are payloads that leave their bounds: each ends with code 0 when it has
// done so. At level None all of them do, or they would prove nothing; at level
// Namespaces none does. $OUTSIDE is a file that payloads may read, $SECRET one that
// they may not, $CACHED a cached file, $PILOT the process that runs them.
var evil = map[string]string{
	"read a hidden file":              `grep x $SECRET`,
	"read the cache":                  `cat $CACHED`,
	"forge the cache":                 `chmod 644 $CACHED; echo forged >> $CACHED`,
	"write outside":                   `echo x >> $OUTSIDE`,
	"make a file outside":             `echo x > $(dirname $OUTSIDE)/new`,
	"remove a file outside":           `rm -f $(dirname $OUTSIDE)/loose && [ ! -e $(dirname $OUTSIDE)/loose ] && [ -e $OUTSIDE ]`,
	"rename a file outside":           `mv $(dirname $OUTSIDE)/moved $(dirname $OUTSIDE)/away`,
	"change the mode of a file":       `chmod 640 $OUTSIDE`,
	"change the owner of a file":      `chown $(id -u) $OUTSIDE`,
	"change the time of a file":       `touch -d 2001-01-01 $OUTSIDE`,
	"link a file of others":           `ln $OUTSIDE stolen`,
	"write to the shared memory":      `echo x > /dev/shm/evil-$$ && rm /dev/shm/evil-$$`,
	"read the temporary files":        `[ -e $TEMPORARY ]`,
	"see other processes":             `[ -d /proc/$PILOT ] && grep -qE "^(exec.test|exe)$" /proc/$PILOT/comm`,
	"signal the pilot":                `kill -CONT $PILOT && grep -qE "^(exec.test|exe)$" /proc/$PILOT/comm`,
	"renice the pilot":                `renice -n 0 -p $PILOT && grep -qE "^(exec.test|exe)$" /proc/$PILOT/comm`,
	"limit the pilot":                 `prlimit --pid $PILOT --core=0 && grep -qE "^(exec.test|exe)$" /proc/$PILOT/comm`,
	"bind the pilot to cores":         `taskset -pc 0-1023 $PILOT && grep -qE "^(exec.test|exe)$" /proc/$PILOT/comm`,
	"read the pilot's limits":         `cat /proc/$PILOT/limits && grep -qE "^(exec.test|exe)$" /proc/$PILOT/comm`,
	"use System V memory of others":   `ipcs -m | grep -q 0x$(printf %08x $SEGMENT)`,
	"call a service by its socket":    `perl -MIO::Socket::UNIX -e 'exit !IO::Socket::UNIX->new(Peer => $ENV{SOCKET})'`,
	"call a service by its name":      `perl -MIO::Socket::UNIX -e 'exit !IO::Socket::UNIX->new(Peer => "\0$ENV{ABSTRACT}")'`,
	"outlive the attempt":             `(setsid sh -c 'prlimit --pid $$ --locks=1:1; sleep 0.7; echo x > $LATE/setsid' </dev/null >/dev/null 2>&1 &); sleep 0.1; exit 7`,
	"outlive it as a child of nobody": `prlimit --pid $$ --locks=1:1; ((setsid sh -c 'sleep 0.7; echo x > $LATE/orphan' </dev/null >/dev/null 2>&1 &) &); sleep 0.1; exit 7`,
}

// openAtLandlock are those that level Landlock does not stop.
var openAtLandlock = map[string]bool{
	"change the mode of a file": true, "change the owner of a file": true, "change the time of a file": true,
	"see other processes": true, "read the pilot's limits": true, "renice the pilot": true, "limit the pilot": true, "bind the pilot to cores": true,
	"use System V memory of others": true, "call a service by its socket": true, "read the temporary files": true, // whether it is there
}

// survives are the evil payloads that have done it when their file is there.
var survives = map[string]string{
	"outlive the attempt": "setsid", "outlive it as a child of nobody": "orphan",
}

func TestSandboxStopsEvilPayloads(t *testing.T) {
	for _, level := range []task.Confinement{None, Landlock, Namespaces} {
		t.Run(level.String(), func(t *testing.T) {
			outside, late := t.TempDir(), t.TempDir()
			for _, name := range []string{"file", "loose", "moved"} {
				if err := os.WriteFile(filepath.Join(outside, name), []byte("x"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			secret := filepath.Join(outside, "secret")
			if err := os.WriteFile(secret, []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
			s := newStand(t, func(c *Config) {
				c.Readable, c.Writable, c.Hidden = []string{outside}, append(c.Writable, late), []string{secret, filepath.Dir(c.WorkDir) + "/cache"}
				c.Sandbox = map[task.Confinement]SandboxMode{None: Off, Landlock: OnlyLandlock, Namespaces: Auto}[level]
			})
			if got, why := s.Level(); got != level {
				t.Fatalf("the level is %s: %s", got, why)
			}
			variables := map[string]string{
				"OUTSIDE": filepath.Join(outside, "file"), "SECRET": secret, "CACHED": s.cached("shared", "x", 0o444), "LATE": late,
				"PILOT": fmt.Sprint(os.Getpid()), "TEMPORARY": s.cfg.LogDir, "SEGMENT": fmt.Sprint(segment(t)),
				"SOCKET": service(t, filepath.Join(t.TempDir(), "socket")), "ABSTRACT": service(t, fmt.Sprintf("@evil-%d-%d", os.Getpid(), level))[1:],
			}
			for name, script := range evil {
				spec := s.shell(script)
				for variable, value := range variables {
					spec.Task.Env[variable] = value
				}
				result := s.run(spec)
				done := result.OK
				if file, later := survives[name]; later {
					for wait := time.Now(); ; {
						time.Sleep(50 * time.Millisecond) //nolint:forbidigo // what has survived tells so later, and what has not tells nothing
						_, err := os.Stat(filepath.Join(late, file))
						done = err == nil
						if since := time.Since(wait); done || since > time.Second && level > None || since > patience {
							break
						}
					}
				}
				if level == None && !done {
					t.Errorf("%s fails without walls, too: %s %s%s", name, result.Reason, result.Stdout, result.Stderr)
				}
				if level == Landlock && done && !openAtLandlock[name] {
					t.Errorf("%s is done, and not in the list of docs/first-site.md", name)
				}
				if level == Namespaces && done {
					t.Errorf("%s: nothing has stopped it: %s", name, result.Stdout)
				}
			}
		})
	}
}

// segment makes a System V memory segment and returns its key.
func segment(t *testing.T) int {
	t.Helper()
	key := 0x51000000 + os.Getpid()
	id, err := unix.SysvShmGet(key, 4096, unix.IPC_CREAT|0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) })
	return key
}

// service answers at a socket.
func service(t *testing.T, name string) string {
	t.Helper()
	listener, err := net.Listen("unix", name)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			_ = connection.Close()
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
	return name
}

// good are payloads that do what payloads do, at every level.
var good = map[string]string{
	"tar":            `mkdir d && echo x > d/f && tar cf d.tar d && rm -r d && tar xpf d.tar && cat d/f`,
	"copy in full":   `echo x > a && chmod 640 a && touch -d 2001-01-01 a && cp -p a b && [ $(stat -c %a-%Y a) = $(stat -c %a-%Y b) ]`,
	"git":            `git init -q r && cd r && echo x > f && git add f && git -c user.name=x -c user.email=x@x commit -qm x && git log | grep -q x`,
	"own namespaces": `[ $LEVEL = LANDLOCK ] || [ $(id -u) = 0 ] || unshare -Urm sh -c '[ $(id -u) = 0 ] && mount -t tmpfs none $HOME'`,
	"links":          `echo x > a && ln a b && ln -s a c && mkfifo p && mkdir -p e/f && chmod 700 e && mv e g && cat b c`,
	"descendants":    `(sleep 0.05; echo x > late) & wait && cat late; sh -c 'sh -c "exit 3"; [ $? = 3 ]'`,
	"temporary":      `f=$(mktemp) && echo x > $f && cat $f && [ -w $HOME ]`,
	"own processes":  `sleep 30 & kill $! && ! wait $! && [ -e /proc/self/status ] && [ $$ != 1 ]`,
	"devices":        `head -c 10 /dev/urandom > r && echo x > /dev/null && head -c 5 /dev/zero > z && [ $(stat -c %s z) = 5 ]`,
	"names":          `getent passwd root > /dev/null && [ -r /etc/passwd ]`,
	"inputs":         `cmp small large || true; [ $(stat -c %s large) = 3000000 ] && head -c 3 large && cat small`,
	"read-only":      `! touch /usr/x 2>/dev/null || [ $(id -u) = 0 ]`,
}

func TestSandboxLetsPayloadsWork(t *testing.T) {
	for _, mode := range []SandboxMode{Off, OnlyLandlock, Auto} {
		s := newStand(t, func(c *Config) { c.Sandbox = mode })
		level, _ := s.Level()
		t.Run(level.String(), func(t *testing.T) {
			small, large := s.cached("s", "x", 0o444), s.cached("l", strings.Repeat("abc", 1_000_000), 0o444)
			for name, script := range good {
				spec := s.shell(script)
				spec.Task.Env["LEVEL"] = level.String()
				spec.Inputs = []StagedInput{{Name: "small", Path: small}, {Name: "large", Path: large}}
				if result := s.run(spec); !result.OK {
					t.Errorf("%s: %s: %s%s", name, result.Reason, result.Stdout, result.Stderr)
				}
			}
			for script, signal := range map[string]string{"kill -ABRT $$": "SIGABRT", "kill $$": "SIGTERM", "kill -9 $$": "SIGKILL", "kill -SEGV $$": "SIGSEGV"} {
				if result := s.run(s.shell(script)); result.Signal != signal {
					t.Errorf("%s: ended by %q, code %d", script, result.Signal, result.ExitCode)
				}
			}
			if level < Namespaces {
				return
			}
			forge := s.shell("chmod u+w large; echo forged >> large; touch large; rm -f small; true")
			forge.Inputs = []StagedInput{{Name: "small", Path: small}, {Name: "large", Path: large}}
			before, err := takeFingerprint(large)
			if err != nil {
				t.Fatal(err)
			}
			s.runOK(forge)
			if after, err := takeFingerprint(large); err != nil || after != before {
				t.Errorf("a bound input was changed: %+v, %+v, %v", before, after, err)
			}
		})
	}
}

// TestSpawnersServeOneAttemptAfterAnother, and go when they have been tampered with:
// this program as spawner, and the small one that `make build` puts into it.
func TestSpawnersServeOneAttemptAfterAnother(t *testing.T) {
	small := filepath.Join(t.TempDir(), "spawner")
	build := osexec.Command("go", "build", "-o", small, "./spawner/static")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	for _, program := range []string{"", small} {
		embedded := embeddedSpawner
		if embeddedSpawner = nil; program != "" {
			var err error
			if embeddedSpawner, err = os.ReadFile(program); err != nil {
				t.Fatal(err)
			}
		}
		s := newStand(t, nil)
		embeddedSpawner = embedded
		if level, why := s.Level(); level < Namespaces || (program == "") != (s.spawners.program.file == nil) {
			t.Fatal(level, why, s.spawners.program.path())
		}
		first := s.spawners.idle[0].pid
		for range 3 {
			s.runOK(s.shell("(sleep 30 &) ; true"))
			s.runOK(s.shell("true"))
		}
		if len(s.spawners.idle) != 1 || s.spawners.idle[0].pid != first {
			t.Error("another spawner has served")
		}
		s.runOK(s.shell("prlimit --pid 1 --nofile=20:20"))
		if len(s.spawners.idle) != 0 {
			t.Error("a spawner whose limits a payload has changed serves further attempts")
		}
		s.runOK(s.shell("true"))
	}
}

// TestPayloadsOfRootGetAnotherAccount at every level; what they make can be
// collected and removed.
func TestPayloadsOfRootGetAnotherAccount(t *testing.T) {
	if os.Geteuid() != 0 {
		return // nobody to change to
	}
	for _, mode := range []SandboxMode{Off, OnlyLandlock, Auto} {
		s := newStand(t, func(c *Config) { c.Sandbox, c.PayloadUser = mode, &Account{UID: 65534, GID: 65534} })
		for folder := s.cfg.WorkDir; folder != "/"; folder = filepath.Dir(folder) { // to pass through
			if err := os.Chmod(folder, 0o755); folder != os.TempDir() && err != nil {
				t.Fatal(err)
			}
			if filepath.Dir(folder) == os.TempDir() {
				break
			}
		}
		level, _ := s.Level()
		spec := s.shell(`id -u; id -g; chmod u+w small; echo more >> small; mkdir -m 700 d; echo x > d/out; chmod 000 d/out; grep -c . /proc/self/status > /dev/null; grep CapEff /proc/self/status; ! cat /etc/shadow 2>/dev/null`)
		spec.Inputs = []StagedInput{{Name: "small", Path: s.cached("s", "x", 0o444)}}
		spec.Task.Outputs = outputs("d/out")
		result := s.runOK(spec)
		if got := strings.Fields(string(result.Stdout)); strings.Join(got, " ") != "65534 65534 CapEff: 0000000000000000" {
			t.Errorf("%s: the payload is %v", level, got)
		}
		if err := s.Release(result.Folder); err != nil {
			t.Error(err)
		}
	}
}
