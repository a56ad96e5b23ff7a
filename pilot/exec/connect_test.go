package exec

import (
	"encoding/binary"
	"errors"
	"fmt"
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
	"unsafe"

	"golang.org/x/sys/unix"
)

// connecter, when set to a way to connect or to "all", makes the test binary a payload
// that connects to ports of this machine and names those that it has reached.
const connecter = "EXEC_TEST_CONNECT"

// waysToConnect, on a stream socket of some kind.
var waysToConnect = map[string]struct {
	domain, protocol int
	connect          func(socket int, to unix.Sockaddr, raw []byte) error
}{
	"TCP":   {unix.AF_INET, unix.IPPROTO_TCP, connect},
	"IPv6":  {unix.AF_INET6, unix.IPPROTO_TCP, connect},
	"MPTCP": {unix.AF_INET, unix.IPPROTO_MPTCP, connect},
	"fast": {unix.AF_INET, unix.IPPROTO_TCP, func(s int, to unix.Sockaddr, _ []byte) error {
		return unix.Sendto(s, []byte("x"), unix.MSG_FASTOPEN, to)
	}},
	"io_uring": {unix.AF_INET, unix.IPPROTO_TCP, func(s int, _ unix.Sockaddr, raw []byte) error { return connectByRing(s, raw) }},
}

func connect(socket int, to unix.Sockaddr, _ []byte) error { return unix.Connect(socket, to) }

// connectIn connects to a port of this machine.
func connectIn(way string, port int) error {
	w := waysToConnect[way]
	socket, err := unix.Socket(w.domain, unix.SOCK_STREAM, w.protocol)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	if w.domain == unix.AF_INET6 {
		return w.connect(socket, &unix.SockaddrInet6{Port: port, Addr: [16]byte{15: 1}}, nil)
	}
	raw := binary.NativeEndian.AppendUint16(nil, unix.AF_INET)
	raw = append(binary.BigEndian.AppendUint16(raw, uint16(port)), 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0)
	return w.connect(socket, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}, raw)
}

// connectByRing has the kernel connect at the request of an io_uring.
func connectByRing(socket int, address []byte) error {
	var parameters [120]byte // struct io_uring_params
	ring, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&parameters)), 0)
	if errno != 0 {
		return errno
	}
	offset := func(at int) int { return int(binary.NativeEndian.Uint32(parameters[at:])) }
	const submissions, completions, entries = 0, 0x8000000, 0x10000000 // IORING_OFF_...
	var rings [3][]byte
	for i, place := range []int64{submissions, completions, entries} {
		var err error
		if rings[i], err = unix.Mmap(int(ring), place, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE); err != nil {
			return err
		}
	}
	entry := rings[2][:64]
	entry[0] = 16 // IORING_OP_CONNECT
	binary.NativeEndian.PutUint32(entry[4:], uint32(socket))
	binary.NativeEndian.PutUint64(entry[8:], uint64(len(address)))
	binary.NativeEndian.PutUint64(entry[16:], uint64(uintptr(unsafe.Pointer(&address[0]))))
	binary.NativeEndian.PutUint32(rings[0][offset(40+4):], 1)                 // the tail; entry 0 is in the array's first place
	_, _, errno = unix.Syscall6(unix.SYS_IO_URING_ENTER, ring, 1, 1, 1, 0, 0) // and wait for its end
	runtime.KeepAlive(address)
	if errno != 0 {
		return errno
	}
	if result := int32(binary.NativeEndian.Uint32(rings[1][offset(80+20)+8:])); result < 0 {
		return unix.Errno(-result)
	}
	return nil
}

// runConnecter is such a payload. It fails where it has reached none.
func runConnecter(asked string) {
	code := 1
	for way := range waysToConnect {
		for _, text := range os.Args[1:] {
			port, err := strconv.Atoi(text)
			if err != nil || asked != "all" && asked != way {
				continue
			}
			if err := connectIn(way, port); err != nil {
				fmt.Fprintln(os.Stderr, way, port, err)
				continue
			}
			fmt.Println(way, port)
			code = 0
		}
	}
	os.Exit(code)
}

// inWordsOf32Bits is the program of a payload that connects with data, by both ways
// that programs of 32 bits have; it has the port as its argument. Without one it only
// speaks so.
const inWordsOf32Bits = `
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
static int say(int n, int a, int b, int c, int d, int e, int f) {
	int r;
	__asm__ volatile("push %%rbp; mov %[f], %%ebp; int $0x80; pop %%rbp" : "=a"(r)
		: "a"(n), "b"(a), "c"(b), "d"(c), "S"(d), "D"(e), [f] "r"(f) : "memory", "r8", "r9", "r10", "r11");
	return r;
}
int main(int n, char **words) {
	if (n < 2) return say(20, 0, 0, 0, 0, 0, 0) <= 0;
	int *low = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	struct sockaddr_in to = {AF_INET, htons(atoi(words[1])), {htonl(INADDR_LOOPBACK)}};
	memcpy(low, &to, sizeof to);
	int at = (int)(long)low;
	int s = say(359, AF_INET, SOCK_STREAM, 0, 0, 0, 0);
	if (say(369, s, at, 1, MSG_FASTOPEN, at, sizeof to) == 1) return 0;
	s = say(359, AF_INET, SOCK_STREAM, 0, 0, 0, 0);
	int words11[] = {s, at, 1, MSG_FASTOPEN, at, sizeof to};
	memcpy(low + 8, words11, sizeof words11);
	return say(102, 11, (int)(long)(low + 8), 0, 0, 0, 0) != 1;
}
`

// knows32Bits tells whether the kernel takes calls in words of 32 bits, as some virtual
// machines do not.
func knows32Bits(t *testing.T) bool {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		return false
	}
	program := filepath.Join(t.TempDir(), "32")
	compiler := osexec.Command("gcc", "-w", "-o", program, "-x", "c", "-")
	compiler.Stdin = strings.NewReader(inWordsOf32Bits)
	if output, err := compiler.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	err := osexec.Command(program).Run()
	var ended *osexec.ExitError
	if errors.As(err, &ended) && ended.Sys().(syscall.WaitStatus).Signal() == syscall.SIGSEGV {
		t.Log("this kernel knows no words of 32 bits: programs that use them are not run")
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	return true
}

// listening answers at a port of this machine, by both protocols of the Internet where
// it has them.
func listening(t *testing.T) (port int) {
	t.Helper()
	for {
		first, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port = first.Addr().(*net.TCPAddr).Port
		listeners := []net.Listener{first}
		second, err := net.Listen("tcp6", "[::1]:"+strconv.Itoa(port))
		switch {
		case err == nil:
			listeners = append(listeners, second)
		case slices.Contains(has(t), "IPv6"): // somebody else has that port
			_ = first.Close()
			continue
		}
		for _, listener := range listeners {
			accept(t, listener)
		}
		return port
	}
}

// accept answers until the end of the test.
func accept(t *testing.T, listener net.Listener) {
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
}

// has lists the ways that this machine has without any walls.
func has(t *testing.T) (names []string) {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for name := range waysToConnect {
		if name == "IPv6" {
			if there, err := net.Listen("tcp6", "[::1]:0"); err != nil || there.Close() != nil {
				continue
			}
		} else if connectIn(name, listener.Addr().(*net.TCPAddr).Port) != nil {
			continue
		}
		names = append(names, name)
	}
	return names
}

// TestSandboxClosesThePortsOfPilotage, and no others, unless it is told otherwise; what
// pilots say of it is what payloads find.
func TestSandboxClosesThePortsOfPilotage(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	queue, other := listening(t), listening(t)
	for _, c := range []struct {
		mode   SandboxMode
		reach  string
		closed bool
	}{
		{Auto, "host", true}, {Auto, "all", false}, {OnlyLandlock, "host", true}, {OnlyLandlock, "all", false}, {Off, "host", false},
		{Auto, "ports=" + strconv.Itoa(other), true}, {Auto, fmt.Sprintf("ports=%d,%d", queue, other), false},
	} {
		set := func(cfg *Config) {
			cfg.Sandbox, cfg.Readable = c.mode, []string{filepath.Dir(self)}
			if err := cfg.Network.Set(c.reach); err != nil {
				t.Fatal(err)
			}
			cfg.Network.Pilotage = []int{7421, queue, queue}
		}
		s := newStand(t, set)
		tried, err := Try(s.cfg)
		if says := s.Walls(); err != nil || slices.Contains(says.Up, "pilotage_ports") != c.closed || says.String() != tried.String() {
			t.Errorf("%s at %s: walls %v, tried %v, %v", c.reach, s.level, says, tried, err)
		}
		spec := s.argv(self, strconv.Itoa(queue), strconv.Itoa(other))
		spec.Task.Env[connecter], spec.Task.Env[raceOptions] = "all", noPause
		result := s.runOK(spec)
		for _, way := range has(t) {
			for port, open := range map[int]bool{queue: !c.closed, other: true} {
				reached := strings.Contains(string(result.Stdout), fmt.Sprintln(way, port))
				plain := way == "TCP" || way == "IPv6" // the other ways are closed as such
				if reached != open && (plain || port == queue && !open) {
					t.Errorf("%s at %s, by %s: reached is %v: %s", c.reach, s.level, way, reached, result.Stderr)
				}
			}
		}
	}
}

// TestPortsOfManyStayOpen: a queue at a port that payloads need on other machines is
// reached there, and the pilot says so.
func TestPortsOfManyStayOpen(t *testing.T) {
	s := newStand(t, func(c *Config) { c.Network.Pilotage = []int{443, 7421} })
	if walls := s.Walls(); slices.Contains(walls.Up, "pilotage_ports") || walls.Note == "" {
		t.Error(walls)
	}
	allowed := s.cfg.Network.allowed()
	if !slices.Contains(allowed, 443) || slices.Contains(allowed, 7421) || len(allowed) != 1<<16-1 {
		t.Errorf("%d ports are open", len(allowed))
	}
}
