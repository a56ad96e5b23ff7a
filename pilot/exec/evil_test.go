package exec

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	osexec "os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pilotage-grid/pilotage/task"
)

// evil are payloads that leave their bounds: each ends with code 0 when it has
// done so. At level None all of them do, or they would prove nothing; at levels
// Namespaces and Container none does. docs/security.md names each, and says what stops it.
//
// $OUTSIDE is a folder that payloads may read, $SECRET a file in it that they may
// not, $CACHED a cached file, $PILOT the process that runs them, $VICTIM another one
// of the account, which has $SECRET open. Another attempt has $OTHER as its work
// folder and $LOG as its log. $PEOPLE is a home folder. $KEY names a System V segment,
// a semaphore and a message of others, $SHARED a file of theirs in the shared memory.
// /.node is where a container has the node, hidden.
var evil = map[string]string{
	// Files.
	"read a hidden file":                   `grep -qs x $SECRET /.node$SECRET`,
	"read a hidden file by a link":         `ln -s $SECRET l && grep -q x l`,
	"read a hidden file by a hard link":    `ln $SECRET h && grep -q x h`,
	"lift the cover of a hidden file":      `grep -q x $SECRET || unshare -Urm sh -c 'umount -l $SECRET; umount -l $OUTSIDE; umount -l /.node; grep -q x $SECRET || grep -q x /.node$SECRET'`,
	"look below the covers":                `grep -q x $SECRET || unshare -Urm sh -c 'mkdir m && mount --bind / m && { grep -q x m$SECRET || grep -q x m/.node$SECRET; }'`,
	"list a hidden folder":                 `ls $(dirname $CACHED) | grep -q .`,
	"read the cache":                       `grep -q x $CACHED`,
	"forge the cache":                      `chmod 644 $CACHED && echo forged >> $CACHED`,
	"read a home folder":                   `grep -q x $PEOPLE/.key`,
	"write to a home folder":               `echo x >> $PEOPLE/.profile`,
	"read another's work folder":           `grep -q x $OTHER/input`,
	"write to another's work folder":       `echo x >> $OTHER/input`,
	"read another's log":                   `grep -q x $LOG`,
	"forge another's log":                  `echo x >> $LOG`,
	"see that temporary files are there":   `[ -e $LOG ]`,
	"leave a file in the temporary folder": `echo x > $TEMPORARY/evil-$$ && rm $TEMPORARY/evil-$$`,
	"write outside":                        `echo x >> $OUTSIDE/file`,
	"make the node writable again":         `echo x >> $OUTSIDE/file || unshare -Urm sh -c 'mount -o remount,bind,rw $OUTSIDE; mount -o remount,bind,rw /; echo x >> $OUTSIDE/file'`,
	"make a file outside":                  `echo x > $OUTSIDE/new`,
	"make a folder outside":                `mkdir $OUTSIDE/folder`,
	"make a link outside":                  `ln -s / $OUTSIDE/link`,
	"make a named pipe outside":            `mkfifo $OUTSIDE/pipe`,
	"cut a file outside":                   `truncate -s 0 $OUTSIDE/cut`,
	"remove a file outside":                `rm $OUTSIDE/loose`,
	"remove a folder outside":              `rmdir $OUTSIDE/empty`,
	"rename a file outside":                `mv $OUTSIDE/moved $OUTSIDE/away`,
	"link a file of others":                `ln $OUTSIDE/file stolen`,
	"change the mode of a file":            `chmod 640 $OUTSIDE/file`,
	"change the owner of a file":           `chown $(id -u) $OUTSIDE/file`,
	"change the time of a file":            `touch -d 2001-01-01 $OUTSIDE/file`,
	"read the shared memory of others":     `grep -q x $SHARED`,
	"write to the shared memory of others": `[ -e $SHARED ] && echo x >> $SHARED`,
	"list the shared memory":               `ls /dev/shm | grep -q .`,
	// Processes.
	"see other processes":                   `[ -d /proc/$PILOT ] && grep -qE "^(exec.test|exe)$" /proc/$PILOT/comm`,
	"signal the pilot":                      `kill -CONT $PILOT && grep -qE "^(exec.test|exe)$" /proc/$PILOT/comm`,
	"renice the pilot":                      `set -- $(cat /proc/$PILOT/stat); renice -n ${19} -p $PILOT && grep -qE "^(exec.test|exe)$" /proc/$PILOT/comm`,
	"limit the pilot":                       `prlimit --pid $PILOT --core=0 && grep -qE "^(exec.test|exe)$" /proc/$PILOT/comm`,
	"bind the pilot to cores":               `taskset -pc 0-1023 $PILOT && grep -qE "^(exec.test|exe)$" /proc/$PILOT/comm`,
	"read the pilot's limits":               `cat /proc/$PILOT/limits && grep -qE "^(exec.test|exe)$" /proc/$PILOT/comm`,
	"read another's command":                `tr '\0' ' ' < /proc/$VICTIM/cmdline | grep -q password`,
	"read another's environment":            `tr '\0' ' ' < /proc/$VICTIM/environ | grep -q TOKEN=`,
	"read what another has open":            `grep -q x /proc/$VICTIM/fd/$VICTIM_FILE`,
	"read a hidden file by another's root":  `for p in $VICTIM 1; do grep -q x /proc/$p/root$SECRET && exit 0; done; exit 1`,
	"signal another":                        `kill -CONT $VICTIM && grep -q perl /proc/$VICTIM/comm`,
	"have another killed for memory":        `echo 1000 > /proc/$VICTIM/oom_score_adj`,
	"take another's share of the disk":      `ionice -c 3 -p $VICTIM && grep -q perl /proc/$VICTIM/comm`,
	"take another's share of the cores":     `chrt --idle --pid 0 $VICTIM && grep -q perl /proc/$VICTIM/comm`,
	"lower another's limits":                `prlimit --pid $VICTIM --nofile=10:10 && grep -q perl /proc/$VICTIM/comm`,
	"gain privileges":                       `grep -q 'NoNewPrivs:.*0' /proc/self/status`,
	"outlive the attempt":                   `(setsid sh -c 'prlimit --pid $$ --locks=1:1; sleep 0.7; echo x > $LATE/setsid' </dev/null >/dev/null 2>&1 &); sleep 0.1; exit 7`,
	"outlive the attempt as nobody's child": `prlimit --pid $$ --locks=1:1; ((setsid sh -c 'sleep 0.7; echo x > $LATE/orphan' </dev/null >/dev/null 2>&1 &) &); sleep 0.1; exit 7`,
	"read the pilot's session keyring":      `perl -e 'my ($type, $value) = ("user", " " x 9); my $k = syscall($ENV{REQUEST_KEY} + 0, $type, $ENV{TICKET}, 0, 0); exit !($k > 0 && syscall($ENV{KEYCTL} + 0, 11, $k, $value, 9) > 0)'`,
	// What processes say to each other.
	"find System V memory of others":     `ipcs -m | grep -q 0x$(printf %08x $KEY)`,
	"write to System V memory of others": `perl -e 'my $m = shmget($ENV{KEY}, 0, 0) // exit 1; exit !shmwrite($m, "evil", 0, 4)'`,
	"take a message of others":           `perl -e 'my $q = msgget($ENV{KEY}, 0) // exit 1; exit !msgrcv($q, my $m, 99, 0, 04000)'`,
	"take a semaphore of others":         `perl -e 'my $s = semget($ENV{KEY}, 0, 0) // exit 1; exit !semop($s, pack "s3", 0, -1, 04000)'`,
	"call a service by its socket":       `perl -MIO::Socket::UNIX -e 'exit !IO::Socket::UNIX->new(Peer => $ENV{SOCKET})'`,
	"call a service by its name":         `perl -MIO::Socket::UNIX -e 'exit !IO::Socket::UNIX->new(Peer => "\0$ENV{ABSTRACT}")'`,
	// The network.
	"connect to the queue":                         `EXEC_TEST_CONNECT=TCP $SELF $QUEUE`,
	"connect to the queue by IPv6":                 `EXEC_TEST_CONNECT=IPv6 $SELF $QUEUE`,
	"connect to a pilot":                           `EXEC_TEST_CONNECT=TCP $SELF $NEIGHBOUR`,
	"connect to the queue by Multipath TCP":        `EXEC_TEST_CONNECT=MPTCP $SELF $QUEUE`,
	"connect to the queue with data":               `EXEC_TEST_CONNECT=fast $SELF $QUEUE`,
	"have the kernel connect to the queue":         `EXEC_TEST_CONNECT=io_uring $SELF $QUEUE`,
	"connect to the queue in words of 32 bits":     `echo "$IN_32_BITS" > 32.c && gcc -w -o 32 32.c && ./32 $QUEUE`,
	"connect to a pilot from a nest of namespaces": `[ $(id -u) = 0 ] || exec unshare -Ur env EXEC_TEST_CONNECT=TCP $SELF $NEIGHBOUR; EXEC_TEST_CONNECT=TCP $SELF $NEIGHBOUR`,
}

// suites are the levels that programs are tried at, and how to get them.
var suites = map[task.Confinement]func(*testing.T, *Config){
	None:       func(_ *testing.T, c *Config) { c.Sandbox = Off },
	Landlock:   func(_ *testing.T, c *Config) { c.Sandbox = OnlyLandlock },
	Namespaces: func(_ *testing.T, c *Config) { c.Sandbox = Auto },
	Container:  imageOfThisNode,
}

// besideTemporaryFiles has a test make its folders where an attempt's own /tmp does not
// hide them.
func besideTemporaryFiles(t *testing.T) {
	t.Helper()
	folder, err := os.MkdirTemp("/var/tmp", "pilotage")
	if err == nil {
		err = os.Chmod(folder, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	t.Setenv("TMPDIR", folder)
}

// survivors are the evil payloads that have done it when their file is there.
var survivors = map[string]string{
	"outlive the attempt": "setsid", "outlive the attempt as nobody's child": "orphan",
}

func TestSandboxStopsEvilPayloads(t *testing.T) {
	open := openAtLandlock(t)
	for name := range evil {
		if _, listed := open[name]; !listed {
			t.Errorf("docs/security.md does not list %q", name)
		}
	}
	if os.Getenv(ticket) == "" {
		delete(evil, "read the pilot's session keyring") // there is none here: containers often deny keyrings
	}
	for name := range evil { // what a machine has not, nobody can do there
		way := regexp.MustCompile("EXEC_TEST_CONNECT=([^ ]+)").FindStringSubmatch(evil[name])
		if way != nil && !slices.Contains(has(t), way[1]) || strings.HasSuffix(name, "32 bits") && !knows32Bits(t) {
			delete(evil, name)
		}
	}
	for level := range suites {
		t.Run(level.String(), func(t *testing.T) {
			besideTemporaryFiles(t)
			done, said := commitEvil(t, level)
			for name := range evil {
				switch {
				case level == None && !done[name]:
					t.Errorf("%s: it fails without walls, too: %s", name, said)
				case level == Landlock && done[name] && !open[name]:
					t.Errorf("%s: it is done, and docs/security.md does not say that it is open", name)
				case level == Landlock && open[name] && !done[name] && os.Geteuid() != 0: // without capabilities root may less to the pilot
					t.Errorf("%s: docs/security.md says that it is open, and it is not: %s", name, said)
				case level >= Namespaces && done[name]:
					t.Errorf("%s: nothing has stopped it: %s", name, said)
				}
			}
		})
	}
}

// denials, when set, is docs/security.md, for an account that cannot read it.
const denials = "EXEC_TEST_DENIALS"

// openAtLandlock reads the table of docs/security.md: the evil payloads, and whether
// level Landlock lets them.
func openAtLandlock(t *testing.T) map[string]bool {
	t.Helper()
	open := map[string]bool{}
	_, table, found := strings.Cut(readDenials(t), "| program | `LANDLOCK` |")
	if !found {
		t.Fatal("docs/security.md has no table of programs")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	for _, line := range strings.Split(table, "\n")[2:] {
		cells := strings.Split(line, "|")
		name := strings.TrimSpace(cells[1])
		if _, again := open[name]; again || evil[name] == "" {
			t.Errorf("docs/security.md lists %q, which is no program, or is listed before", name)
		}
		open[name] = openHere(t, strings.TrimSpace(cells[2]))
	}
	return open
}

// openHere reads "open", or "open before Linux 6.12", for the kernel that runs.
func openHere(t *testing.T, says string) bool {
	t.Helper()
	version := func(text string) (n int) {
		var major, minor int
		if _, err := fmt.Sscanf(text, "%d.%d", &major, &minor); err != nil {
			t.Fatalf("%q is no version: %v", text, err)
		}
		return 1000*major + minor
	}
	before, since := strings.CutPrefix(says, "open before Linux ")
	if !since {
		return says == "open"
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		t.Fatal(err)
	}
	return version(unix.ByteSliceToString(name.Release[:])) < version(before)
}

func readDenials(t *testing.T) string {
	t.Helper()
	if text := os.Getenv(denials); text != "" {
		return text
	}
	text, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// commitEvil runs all evil payloads at a level and tells which have done it.
func commitEvil(t *testing.T, level task.Confinement) (done map[string]bool, said string) {
	outside, late, people := t.TempDir(), t.TempDir(), t.TempDir()
	t.Setenv("HOME", people)
	queue, neighbour := listening(t), listening(t)
	self := reachableSelf(t, t.TempDir())
	secret := filepath.Join(outside, "secret")
	fill(t, secret, filepath.Join(outside, "file"), filepath.Join(outside, "cut"), filepath.Join(outside, "loose"), filepath.Join(outside, "moved"),
		filepath.Join(outside, "empty")+"/", filepath.Join(people, ".key"))
	s := newStand(t, func(c *Config) {
		c.Network.Pilotage = []int{queue, neighbour}
		c.Readable, c.Writable, c.Hidden = []string{outside, filepath.Dir(self)}, append(c.Writable, late), []string{secret, filepath.Dir(c.WorkDir) + "/cache"}
		suites[level](t, c)
	})
	if got, why := s.Level(); got != level {
		t.Fatalf("the level is %s: %s", got, why)
	}
	other := filepath.Join(s.cfg.WorkDir, "g1-l1-p-other-1")
	log := filepath.Join(s.cfg.LogDir, "other.out")
	fill(t, log, filepath.Join(other, "input"))
	t.Cleanup(func() { _ = os.RemoveAll(other) })
	shared := fmt.Sprintf("/dev/shm/evil-%d-%d", os.Getpid(), level)
	fill(t, shared)
	t.Cleanup(func() { _ = os.Remove(shared) })
	victim, file := victim(t, secret)
	variables := map[string]string{
		"OUTSIDE": outside, "SECRET": secret, "CACHED": s.cached("shared", "x", 0o444), "LATE": late, "PEOPLE": people,
		"PILOT": strconv.Itoa(os.Getpid()), "VICTIM": strconv.Itoa(victim), "VICTIM_FILE": file, "OTHER": other, "LOG": log, "TEMPORARY": os.TempDir(),
		"REQUEST_KEY": strconv.Itoa(unix.SYS_REQUEST_KEY), "KEYCTL": strconv.Itoa(unix.SYS_KEYCTL), "TICKET": os.Getenv(ticket),
		"SELF": self, "QUEUE": strconv.Itoa(queue), "NEIGHBOUR": strconv.Itoa(neighbour), "IN_32_BITS": inWordsOf32Bits, raceOptions: noPause,
		"SHARED": shared, "KEY": strconv.Itoa(exchange(t)),
		"SOCKET": service(t, filepath.Join(t.TempDir(), "socket")), "ABSTRACT": service(t, fmt.Sprintf("@evil-%d-%d", os.Getpid(), level))[1:],
	}
	try := func(script string) Result {
		spec := s.shell(script)
		maps.Copy(spec.Task.Env, variables)
		return s.run(spec)
	}
	done = map[string]bool{}
	var all strings.Builder
	all.WriteString("[ -r $OUTSIDE/file ] && [ -w $LATE ] && [ -x $SELF ] || exit 1\n") // or nothing would be tried
	for name, script := range evil {
		if survivors[name] == "" {
			fmt.Fprintf(&all, "if (%s) >/dev/null; then echo \"%s\"; fi\n", script, name)
		}
	}
	result := try(all.String())
	if !result.OK {
		t.Errorf("%s: %s", result.Reason, result.Stderr)
	}
	for name := range strings.Lines(string(result.Stdout)) {
		done[strings.TrimSpace(name)] = true
	}
	for name, file := range survivors {
		try(evil[name])
		for began := time.Now(); ; {
			time.Sleep(50 * time.Millisecond) //nolint:forbidigo // what has survived tells so later, and what has not tells nothing
			_, err := os.Stat(filepath.Join(late, file))
			done[name] = err == nil
			if since := time.Since(began); done[name] || since > time.Second && level > None || since > patience {
				break
			}
		}
	}
	return done, string(result.Stderr)
}

// ticket, when set, is the name of a key in the session keyring of this process.
const ticket = "EXEC_TEST_TICKET"

// takeTicket starts this program anew with a session keyring that holds a key, as a
// pilot has where a login or a batch system gave it a Kerberos ticket. Nobody else
// gives a keyring to all threads of a process.
func takeTicket() error {
	runtime.LockOSThread()
	_, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0)
	if err == nil {
		_, err = unix.AddKey("user", "pilotage-ticket", []byte("x"), unix.KEY_SPEC_SESSION_KEYRING)
	}
	if err != nil {
		return err
	}
	return unix.Exec("/proc/self/exe", os.Args, append(os.Environ(), ticket+"=pilotage-ticket"))
}

// fill makes files, and folders where a name ends with a slash.
func fill(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if !strings.HasSuffix(path, "/") {
			err = errors.Join(err, os.WriteFile(path, []byte("x"), 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// victim is a process of the same account with a token and an open file; it returns
// its number and the file's.
func victim(t *testing.T, file string) (pid int, descriptor string) {
	t.Helper()
	process := osexec.Command("perl", "-e", `open(my $f, "<", $ENV{SECRET}) or die; $| = 1; print fileno($f), "\n"; sleep 600`, "password")
	process.Env = append(os.Environ(), "SECRET="+file, "TOKEN=x")
	output, err := process.StdoutPipe()
	if err == nil {
		err = process.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = process.Process.Kill()
		_ = process.Wait()
	})
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return process.Process.Pid, strings.TrimSpace(line)
}

// exchange makes a System V memory segment, a semaphore that is up and a message,
// and returns their key.
func exchange(t *testing.T) int {
	t.Helper()
	key := segment(t)
	perl := func(script string) {
		command := osexec.Command("perl", "-e", script)
		command.Env = append(os.Environ(), "KEY="+strconv.Itoa(key))
		if said, err := command.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, said)
		}
	}
	perl(`my $s = semget($ENV{KEY}, 1, 01600) // die $!; semop($s, pack "s3", 0, 1, 0) or die $!;
		my $q = msgget($ENV{KEY}, 01600) // die $!; msgsnd($q, pack("l! a*", 1, "x"), 0) or die $!`)
	t.Cleanup(func() { perl(`semctl(semget($ENV{KEY}, 0, 0), 0, 0, 0); msgctl(msgget($ENV{KEY}, 0), 0, 0)`) })
	return key
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
	accept(t, listener)
	return name
}

// TestSpawnersServeOneAttemptAfterAnother, and go when they have been tampered with:
// this program as spawner, and the small one that `make build` puts into it.
func TestSpawnersServeOneAttemptAfterAnother(t *testing.T) {
	small := embeddedSpawner
	defer func() { embeddedSpawner = small }()
	for _, embeddedSpawner = range [][]byte{nil, small} {
		s := newStand(t, nil)
		if level, why := s.Level(); level < Namespaces || (embeddedSpawner == nil) != (s.spawners.program.file == nil) {
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

// passThrough lets another account into a folder of a test.
func passThrough(t *testing.T, folder string) {
	t.Helper()
	for ; folder != "/" && filepath.Dir(folder) != os.TempDir(); folder = filepath.Dir(folder) {
		if err := os.Chmod(folder, 0o755); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(folder, 0o755); err != nil {
		t.Fatal(err)
	}
}

// TestPayloadsOfRootGetAnotherAccount at every level; what they make can be
// collected and removed.
func TestPayloadsOfRootGetAnotherAccount(t *testing.T) {
	if os.Geteuid() != 0 {
		return // nobody to change to
	}
	for _, mode := range []SandboxMode{Off, OnlyLandlock, Auto} {
		s := newStand(t, func(c *Config) {
			c.Sandbox, c.PayloadUser = mode, &Account{UID: 65534, GID: 65534}
			passThrough(t, c.WorkDir)
		})
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
