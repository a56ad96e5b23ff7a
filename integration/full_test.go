package integration

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// A queue whose disk is full goes on with reads, refuses writes with words and
// an exit code that mean "try again", says the truth about its health, starts on
// a full disk, and goes on without a restart when there is room.
func TestQueueOnAFullDisk(t *testing.T) {
	t.Parallel()
	inNamespaces(t, syscall.CLONE_NEWNS, queueOnAFullDisk)
}

func queueOnAFullDisk(t *testing.T) {
	g := &grid{t: t, dir: t.TempDir(), binary: binary}
	data := filepath.Join(g.dir, "queue")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", data, "tmpfs", 0, "size=40m,mode=700"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(data, 0) })
	t.Cleanup(g.stop)
	g.startQueue()
	g.must("site", "add", "siteA")
	g.must("submit", "--name", "before", "--", "true")
	web := g.webAddress() // a full disk keeps the queue from writing down another one

	fillDisk(t, data)
	g.refusesWrites(t)
	g.queue.kill()
	g.startQueue("--listen-http", web) // on the full disk
	g.refusesWrites(t)
	makeRoom(t, data)
	g.takesWrites(t, "after")

	// Without its files beside it SQLite cannot even read: the queue waits.
	g.queue.terminate(t, startTime)
	fillDisk(t, data)
	g.queue = g.start("queue", "taskqueue", "--data", data, "--listen", g.queueAddress(), "--listen-http", "127.0.0.1:0")
	observe(g, "the queue says that it waits", func() (bool, bool) {
		return true, strings.Contains(g.queue.log.String(), "it starts when there is room")
	})
	if _, _, code := g.run("workflow", "list"); code != 3 {
		t.Errorf("a call to a queue that waits for room: exit %d, want 3", code)
	}
	makeRoom(t, data)
	g.queue.await(t, "ready queue=")
	g.takesWrites(t, "again")
	wantText(t, "workflows", g.must("workflow", "list"), "before", "after", "again")
}

// refusesWrites checks what a full disk looks like from outside.
func (g *grid) refusesWrites(t *testing.T) {
	t.Helper()
	stdout, stderr, code := g.run("submit", "--name", "refused", "--", "echo", strings.Repeat("x", 100_000))
	if code != 3 {
		t.Errorf("submit on a full disk: exit %d, want 3\n%s%s", code, stdout, stderr)
	}
	wantText(t, "submit", stderr, "disk is full", "nothing of this call was kept", "try again")
	if list := g.must("workflow", "list"); !strings.Contains(list, "before") || strings.Contains(list, "refused") {
		t.Errorf("reads on a full disk: %s", list)
	}
	if status, body := g.scrape("/healthz"); status != http.StatusServiceUnavailable || !strings.Contains(body, "space") {
		t.Errorf("healthz on a full disk: %d %q", status, body)
	}
	if health := g.health(t); health != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Errorf("health on a full disk: %s", health)
	}
}

func (g *grid) takesWrites(t *testing.T, name string) {
	t.Helper()
	observe(g, "the queue is well", func() (bool, bool) {
		status, _ := g.scrape("/healthz")
		return true, status == http.StatusOK && g.health(t) == healthpb.HealthCheckResponse_SERVING
	})
	g.must("submit", "--name", name, "--", "true")
}

func (g *grid) health(t *testing.T) healthpb.HealthCheckResponse_ServingStatus {
	t.Helper()
	conn, _, _, _ := g.client()
	reply, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return reply.GetStatus()
}

// fillDisk leaves no byte free on the disk of a folder.
func fillDisk(t *testing.T, folder string) {
	t.Helper()
	file, err := os.Create(filepath.Join(folder, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for page := make([]byte, 4096); err == nil; {
		_, err = file.Write(page)
	}
}

func makeRoom(t *testing.T, folder string) {
	t.Helper()
	if err := os.Remove(filepath.Join(folder, "filler")); err != nil {
		t.Fatal(err)
	}
}
