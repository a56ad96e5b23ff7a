package exec

import (
	"io"
	"net"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// image makes the folder of a root file system with a few of this node's programs.
func image(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	put := func(path, content string) {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, path), []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	put("/etc/marker", "of the image")
	for _, program := range []string{"sh", "cat", "ls", "touch", "id", "unshare"} {
		path, err := osexec.LookPath(program)
		if err != nil {
			t.Fatal(err)
		}
		files := []string{path}
		libraries, err := osexec.Command("ldd", path).Output()
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range strings.Fields(string(libraries)) {
			if filepath.IsAbs(word) {
				files = append(files, word)
			}
		}
		for i, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				file = "/programs/" + program
			}
			put(file, string(content))
		}
	}
	if err := os.Symlink("programs", filepath.Join(root, "bin")); err != nil {
		t.Fatal(err)
	}
	passThrough(t, root)
	return root
}

// imageOfThisNode has payloads enter the folder of a root file system with this node's
// accounts and links, and shows its programs, which are too many to copy, in it.
func imageOfThisNode(t *testing.T, c *Config) {
	root := t.TempDir()
	passThrough(t, root)
	c.Container, c.Readable = root, append(c.Readable, "/usr")
	for _, folder := range []string{"/bin", "/sbin", "/lib", "/lib64"} {
		if target, err := os.Readlink(folder); err == nil {
			if err := os.Symlink(target, filepath.Join(root, folder)); err != nil {
				t.Fatal(err)
			}
		} else {
			c.Readable = append(c.Readable, folder)
		}
	}
	arguments := []string{"-d", "--parents", "-t", root}
	for _, files := range []string{"passwd", "group", "nsswitch.conf", "ld.so.cache", "alternatives/*"} {
		paths, err := filepath.Glob(filepath.Join("/etc", files))
		if err != nil {
			t.Fatal(err)
		}
		arguments = append(arguments, paths...)
	}
	if said, err := osexec.Command("cp", arguments...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
}

// TestSandboxEntersAContainer that is a folder: it is their root, read-only, with
// the work folder and the inputs in it, and nothing of the node.
func TestSandboxEntersAContainer(t *testing.T) {
	s := newStand(t, func(c *Config) { c.Container, c.Path = image(t), "/bin" })
	if walls := s.Walls(); walls.Confinement != Container {
		t.Fatal(walls)
	}
	large := s.cached("large", strings.Repeat("x", 2<<20), 0o444)
	spec := s.shell(`set -e
		test "$(cat /etc/marker)" = "of the image"
		test "$PWD" = /pilotage -a "$HOME" = /pilotage/.private
		test "$(cat in)" = small
		test "$(ls)" = "$(printf 'in\nlarge')"
		test "$(cat large | head -c 3 2>/dev/null || cat large)" != ""
		touch /tmp/here && test -e .private/here
		cat /proc/self/status > /dev/null
		test "$(id -u)" = 0 || test "$(unshare -Ur id -u)" = 0
		cat in > out
		for place in /etc/marker /programs/new /new /dev/new large /.node/new; do
			if (: >> $place) 2>/dev/null; then echo "wrote $place"; exit 1; fi
		done
		if ls /.node/* /home /root 2>/dev/null; then exit 2; fi
		if cat ` + large + ` 2>/dev/null; then exit 3; fi`)
	spec.Inputs = []StagedInput{{Name: "in", Path: s.cached("small", "small", 0o444)}, {Name: "large", Path: large}}
	spec.Task.Outputs = outputs("out")
	for range 2 { // the second finds nothing of the first
		spec.Attempt.Counter = attempts.Add(1)
		if result := s.run(spec); !result.OK || len(result.Outputs) != 1 {
			t.Fatalf("%s: %s%s", result.Reason, result.Stdout, result.Stderr)
		}
	}
	s.runOK(s.argv("id")) // found in the image's PATH
	if result := s.run(s.argv("awk")); result.OK || !strings.Contains(result.Reason, "awk") {
		t.Errorf("a program that the image does not have: %+v", result)
	}
	cfg := s.cfg
	for _, bad := range []string{"/nonexistent", "/etc/passwd", "/"} {
		if cfg.Container = bad; func() bool { r, err := New(cfg); return err == nil && r.Close() == nil }() {
			t.Errorf("%s is a container", bad)
		}
	}
}

// TestSandboxEntersTheContainerOfATask, where the site lets images lie there: each
// attempt gets its own, and the node's files come back with the next.
func TestSandboxEntersTheContainerOfATask(t *testing.T) {
	images, elsewhere := t.TempDir(), image(t)
	first, second := filepath.Join(images, "first"), filepath.Join(images, "second")
	for _, err := range []error{
		os.Rename(image(t), first), os.Rename(image(t), second), os.WriteFile(filepath.Join(second, "etc/marker"), []byte("of the second"), 0o644),
		os.Symlink(second, filepath.Join(images, "latest")), os.Symlink(elsewhere, filepath.Join(images, "out")),
		os.WriteFile(filepath.Join(images, "file"), nil, 0o644),
		os.Chmod(images, 0o755), os.Chmod(filepath.Dir(images), 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	s := newStand(t, func(c *Config) { c.Images, c.Path = []string{images}, "/bin:/usr/bin" })
	if got := s.Walls(); got.Confinement != Namespaces || !slices.Equal(got.Images(), []string{images + "/"}) {
		t.Error(got)
	}
	in := func(container, script string) Spec {
		spec := s.shell(script)
		spec.Task.Container, spec.Task.Outputs = container, outputs("out")
		return spec
	}
	for range 2 {
		s.runOK(in(first, `test "$(cat /etc/marker)" = "of the image" -a "$PWD" = /pilotage && echo x > out`))
		s.runOK(in(filepath.Join(images, "latest"), `test "$(cat /etc/marker)" = "of the second" && id > out`))
		s.runOK(in("", `! test -e /etc/marker && test "$PWD" != /pilotage && echo x > out`))
	}
	for container, reason := range map[string]string{
		elsewhere: "lets images lie in", images: "lets images lie in", images + "-other": "lets images lie in",
		filepath.Join(images, "none"): "is not at this node", filepath.Join(images, "out"): "is no folder in one of images",
		filepath.Join(images, "file"): "is no folder in one of images",
	} {
		if result := s.run(in(container, "echo x > out")); result.OK || !strings.Contains(result.Reason, reason) {
			t.Errorf("%s: %+v", container, result)
		}
	}
	low := newStand(t, func(c *Config) { c.Sandbox, c.Images = OnlyLandlock, []string{images} })
	if result := low.run(in(first, "echo x > out")); result.OK || !strings.Contains(result.Reason, "takes level NAMESPACES") || len(low.Walls().Images()) > 0 {
		t.Errorf("%s, %v", result.Reason, low.Walls())
	}
	none := newStand(t, func(c *Config) { c.Images = []string{"none"} })
	if result := none.run(in(first, "echo x > out")); result.OK || len(none.Walls().Images()) > 0 {
		t.Errorf("%s, %v", result.Reason, none.Walls())
	}
	for _, bad := range []string{"cvmfs", "/", "/cvmfs/.."} {
		if _, err := New(Config{WorkDir: t.TempDir(), LogDir: t.TempDir(), Guests: Guests{Images: []string{bad}}}); err == nil {
			t.Errorf("%s is a folder for images", bad)
		}
	}
}

// TestSandboxLimitsTheNetwork and nothing else.
func TestSandboxLimitsTheNetwork(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(connection, "hello\n")
			_ = connection.Close()
		}
	}()
	port := listener.Addr().(*net.TCPAddr).Port
	for _, c := range []struct {
		network string
		mode    SandboxMode
		reached bool
	}{
		{"host", Auto, true},
		{"none", Auto, false},
		{"ports=80," + strconv.Itoa(port), Auto, true},
		{"ports=80," + strconv.Itoa(port), OnlyLandlock, true},
		{"ports=80,443", Auto, false},
		{"ports=80,443", OnlyLandlock, false},
	} {
		bounded := strings.HasPrefix(c.network, "ports")
		var network Network
		if err := network.Set(c.network); err != nil || network.String() != c.network && c.reached {
			t.Fatal(network.String(), err)
		}
		s := newStand(t, func(cfg *Config) { cfg.Network, cfg.Sandbox = network, c.mode })
		result := s.run(s.argv("bash", "-c", "read -r said < /dev/tcp/127.0.0.1/"+strconv.Itoa(port)+` && test "$said" = hello`))
		if result.OK != c.reached {
			t.Errorf("%s at %s: reached is %v: %s", c.network, s.level, result.OK, result.Stderr)
		}
		// What Landlock lets pass, and the sign that the script does so without it.
		for name, script := range map[string]string{
			"Multipath TCP": `my $s; exit !(socket($s, 2, 1, 262) && connect($s, pack("S n N x8", 2, $ARGV[0], 0x7f000001)))`,
			"fast open":     `my $s; exit !(socket($s, 2, 1, 0) && defined send($s, "x", 0x20000000, pack("S n N x8", 2, $ARGV[0], 0x7f000001)))`,
			"io_uring":      `my $p = "\0" x 120; exit !(syscall(425, 1, $p) >= 0)`,
		} {
			way := s.run(s.argv("perl", "-e", script, strconv.Itoa(port)))
			if bounded && way.OK {
				t.Errorf("%s at %s: %s leads around it", c.network, s.level, name)
			}
			if c.network == "host" && !way.OK {
				t.Logf("%s is not to be had here at all: %s", name, way.Stderr)
			}
		}
	}
	var network Network
	for _, bad := range []string{"", "lan", "ports=", "ports=0", "ports=80,http", "ports=65536"} {
		if network.Set(bad) == nil {
			t.Errorf("%q is a network", bad)
		}
	}
	_, err = New(Config{WorkDir: t.TempDir(), LogDir: t.TempDir(), Guests: Guests{Sandbox: Off, Network: Network{None: true}}})
	if err == nil || !strings.Contains(err.Error(), "takes level NAMESPACES") {
		t.Error(err)
	}
}
