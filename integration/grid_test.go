package integration

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

// binary is built once, with the race detector, for all tests. Commands that ask the queue
// something and end are those of client, without it: the race detector's binary takes half a
// second of a processor to start, and tests call hundreds.
var binary, client string

// binaryVariable names the binary to a test that runs itself in a namespace.
const binaryVariable = "PILOTAGE_TEST_BINARY"

func TestMain(m *testing.M) {
	flag.Parse()
	// These tests wait for other processes most of the time, for leases and
	// offices that end: more of them than there are processors run at once.
	if limit := flag.Lookup("test.parallel"); limit.Value.String() == limit.DefValue {
		if err := flag.Set("test.parallel", strconv.Itoa(3*runtime.GOMAXPROCS(0))); err != nil {
			panic(err)
		}
	}
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	// The race detector keeps every process for a second at its end, to report
	// what other threads find. These tests start hundreds.
	if err := os.Setenv("GORACE", strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=50")); err != nil {
		panic(err)
	}
	account := "nobody" // of payloads, where root runs these tests
	if os.Getenv(binaryVariable) != "" {
		account = "root" // a user namespace has no other one
	}
	if err := os.Setenv("PILOTAGE_PAYLOAD_USER", account); err != nil {
		panic(err)
	}
	dir, err := os.MkdirTemp("", "pilotage-integration-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if binary = os.Getenv(binaryVariable); binary != "" { // this process was started by one of its tests
		client = filepath.Join(filepath.Dir(binary), "client")
		return m.Run()
	}
	binary, client = filepath.Join(dir, "pilotage"), filepath.Join(dir, "client")
	// Payloads are started by the small program, as in what `make build` makes.
	plain := func(args ...string) *exec.Cmd { // the flavour of `make build`
		build := exec.Command("go", append([]string{"build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w"}, args...)...)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		return build
	}
	for _, build := range []*exec.Cmd{
		plain("-o", "../pilot/exec/spawner.bin", "../pilot/exec/spawner/static"),
		plain("-tags", "spawner", "-o", client, "../cmd/pilotage"),
		// Flags that change what is compiled would build every dependency anew;
		// those of the linker only spare it the debugger's tables.
		exec.Command("go", "build", "-race", "-tags", "spawner", "-ldflags", "-s -w", "-buildvcs=false", "-o", binary, "../cmd/pilotage"),
	} {
		build.Stdout, build.Stderr = os.Stderr, os.Stderr
		if err := build.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "build the binary:", err)
			return 1
		}
	}
	return m.Run()
}

// grid is a queue with sites and pilots, each a process of its own.
type grid struct {
	t      *testing.T
	dir    string
	queue  *process
	pilots []*pilotProcess
	extra  []string // further flags for pilots
	binary string
}

// process is one running binary.
type process struct {
	name   string
	cmd    *exec.Cmd
	lines  chan string
	log    *syncBuffer
	exited chan struct{}
	err    error // how it ended, and when; valid once exited is closed
	began  time.Time
	ended  time.Time
}

type pilotProcess struct {
	*process
	id       string
	site     string
	dir      string
	replaced bool // by another one, after its end
}

// syncBuffer is what a process logs: in memory, or in a file where it may be much.
type syncBuffer struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	path string // of the file, "" is in memory
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	if b.path != "" {
		text, err := os.ReadFile(b.path)
		if err != nil {
			return err.Error()
		}
		return string(text)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// newGrid starts a queue and adds sites, each with its own storage folder.
func newGrid(t *testing.T, sites ...string) *grid {
	t.Helper()
	return newGridOf(t, binary, sites...)
}

// newGridOf runs a binary of its own, as one of another release.
func newGridOf(t *testing.T, binary string, sites ...string) *grid {
	t.Helper()
	noteSources(t)
	g := &grid{t: t, dir: t.TempDir(), binary: binary}
	t.Cleanup(g.stop)
	g.startQueue()
	for _, site := range sites {
		storage := filepath.Join(g.dir, "storage", site)
		if err := os.MkdirAll(storage, 0o755); err != nil {
			t.Fatal(err)
		}
		g.must("site", "add", site, "--se", "file://"+storage)
	}
	return g
}

func (g *grid) startQueue(args ...string) {
	g.t.Helper()
	args = append([]string{
		"taskqueue", "--data", filepath.Join(g.dir, "queue"), "--listen", g.queueAddress(), "--listen-http", "127.0.0.1:0",
	}, args...)
	g.queue = g.start("queue", args...)
	g.queue.await(g.t, "ready queue=")
}

// queueAddress is where the queue listens: any free port first, the same one
// after a restart.
func (g *grid) queueAddress() string {
	data, err := os.ReadFile(filepath.Join(g.dir, "queue", "access", "admin.json"))
	if err != nil {
		return "127.0.0.1:0"
	}
	var access struct {
		Queue []string `json:"queue"`
	}
	if err := json.Unmarshal(data, &access); err != nil || len(access.Queue) == 0 {
		g.t.Fatalf("admin.json: %v", err)
	}
	return access.Queue[0]
}

func (g *grid) access(name string) string {
	return filepath.Join(g.dir, "queue", "access", name+".json")
}

// addPilot starts a pilot and waits until it is a member of its site.
func (g *grid) addPilot(site string, flags ...string) *pilotProcess {
	g.t.Helper()
	p := g.startPilot(site, flags...)
	p.awaitReady(g.t)
	return p
}

// addPilots starts one pilot for each name of a site, all at once, and waits
// for all of them.
func (g *grid) addPilots(sites ...string) []*pilotProcess {
	g.t.Helper()
	pilots := make([]*pilotProcess, len(sites))
	for i, site := range sites {
		pilots[i] = g.startPilot(site)
	}
	for _, p := range pilots {
		p.awaitReady(g.t)
	}
	return pilots
}

func (g *grid) startPilot(site string, flags ...string) *pilotProcess {
	g.t.Helper()
	dir := filepath.Join(g.dir, "pilots", fmt.Sprintf("%s-%d", site, len(g.pilots)))
	args := append([]string{
		"pilot", "--access", g.access("pilot-" + site), "--cache", dir, "--slots", "1", "--advertise", "127.0.0.1",
		"--grace", "2s", "--writable", g.outside(), "--memory", "4GiB",
	}, g.extra...)
	p := &pilotProcess{process: g.start("pilot "+site, append(args, flags...)...), site: site, dir: dir}
	g.pilots = append(g.pilots, p)
	return p
}

func (p *pilotProcess) awaitReady(t *testing.T) {
	t.Helper()
	line := p.await(t, "ready pilot=")
	p.id, _, _ = strings.Cut(strings.TrimPrefix(line, "ready pilot="), " ")
}

func (g *grid) start(name string, args ...string) *process {
	g.t.Helper()
	p := &process{name: name, cmd: exec.Command(g.binary, args...)}
	p.cmd.Env = append(os.Environ(), "PILOTAGE_LOG=debug")
	g.launch(p)
	return p
}

// launch starts a command and follows what it says.
func (g *grid) launch(p *process) {
	g.t.Helper()
	p.lines, p.exited = make(chan string, 100), make(chan struct{})
	if p.log == nil {
		p.log = &syncBuffer{}
		p.cmd.Stderr = p.log
	}
	if p.cmd.SysProcAttr == nil {
		p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		g.t.Fatal(err)
	}
	p.began = time.Now()
	if err := p.cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	go func() {
		scanner := bufio.NewScanner(out)
		for scanner.Scan() {
			select {
			case p.lines <- scanner.Text():
			default:
			}
		}
		_, _ = io.Copy(io.Discard, out)
		p.err, p.ended = p.cmd.Wait(), time.Now()
		close(p.exited)
	}()
}

const startTime = 3 * time.Minute

// await waits for a line of stdout that begins so.
func (p *process) await(t *testing.T, prefix string) string {
	t.Helper()
	timeout := time.After(startTime)
	for {
		select {
		case line := <-p.lines:
			if strings.HasPrefix(line, prefix) {
				return line
			}
		case <-p.exited:
			t.Fatalf("%s ended before it said %q: %v\n%s", p.name, prefix, p.err, p.log)
		case <-timeout:
			t.Fatalf("%s did not say %q within %s\n%s", p.name, prefix, startTime, p.log)
		}
	}
}

func (p *process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// kill is kill -9.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// terminate sends SIGTERM and waits for an orderly end.
func (p *process) terminate(t *testing.T, limit time.Duration) {
	t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(limit):
		p.kill()
		t.Errorf("%s did not end within %s of SIGTERM\n%s", p.name, limit, p.log)
	}
}

// stop ends everything; a data race in any process fails the test.
func (g *grid) stop() {
	all := make([]*process, 0, len(g.pilots)+1)
	for _, p := range g.pilots {
		all = append(all, p.process)
	}
	all = append(all, g.queue)
	for _, p := range all {
		if p != nil && p.running() {
			p.kill()
		}
	}
	for _, p := range all {
		if p == nil {
			continue
		}
		if text := p.log.String(); strings.Contains(text, "DATA RACE") || strings.Contains(text, "panic:") {
			g.t.Errorf("%s:\n%s", p.name, text)
		} else if g.t.Failed() {
			g.t.Logf("log of %s:\n%s", p.name, tail(text, 12000))
		}
	}
}

func tail(text string, most int) string {
	if len(text) > most {
		return "..." + text[len(text)-most:]
	}
	return text
}

// run calls the binary as an admin and returns its output and exit code.
func (g *grid) run(args ...string) (stdout, stderr string, code int) {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	program := g.binary
	if program == binary && !slices.Contains(args, "bench") { // which plays a whole grid
		program = client
	}
	command := exec.CommandContext(ctx, program, args...)
	var out, errOut bytes.Buffer
	command.Stdout, command.Stderr = &out, &errOut
	command.Env = append(os.Environ(), "PILOTAGE_ACCESS="+g.access("admin"))
	err := command.Run()
	if err != nil && command.ProcessState == nil {
		g.t.Fatalf("run %v: %v", args, err)
	}
	return out.String(), errOut.String(), command.ProcessState.ExitCode()
}

// must calls the binary and fails the test unless it exits 0.
func (g *grid) must(args ...string) string {
	g.t.Helper()
	stdout, stderr, code := g.run(args...)
	if code != 0 {
		g.t.Fatalf("pilotage %s: exit %d\n%s%s", strings.Join(args, " "), code, stdout, stderr)
	}
	return stdout
}

// workflow writes a workflow file and returns its path.
func (g *grid) workflow(name, text string) string {
	g.t.Helper()
	path := filepath.Join(g.dir, name+".yaml")
	if err := os.WriteFile(path, []byte("apiVersion: pilotage/v1\nkind: Workflow\nname: "+name+"\n"+text), 0o600); err != nil {
		g.t.Fatal(err)
	}
	return path
}

// client opens the queue's gRPC as an admin.
func (g *grid) client() (*grpc.ClientConn, pb.TaskServiceClient, pb.SiteServiceClient, pb.PilotServiceClient) {
	g.t.Helper()
	conn, err := g.connect()
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = conn.Close() })
	return conn, pb.NewTaskServiceClient(conn), pb.NewSiteServiceClient(conn), pb.NewPilotServiceClient(conn)
}

func (g *grid) connect() (*grpc.ClientConn, error) {
	data, err := os.ReadFile(g.access("admin"))
	if err != nil {
		return nil, err
	}
	var access struct {
		Queue []string `json:"queue"`
		CA    string   `json:"ca_pem"`
		Token string   `json:"token"`
	}
	if err := json.Unmarshal(data, &access); err != nil {
		return nil, err
	}
	return grpc.NewClient("passthrough:///"+access.Queue[0],
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: pool(g.t, access.CA), ServerName: "pilotage-queue", MinVersion: tls.VersionTLS13})),
		grpc.WithPerRPCCredentials(token(access.Token)))
}

type token string

// GetRequestMetadata satisfies credentials.PerRPCCredentials.
func (t token) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(t)}, nil
}

// RequireTransportSecurity satisfies credentials.PerRPCCredentials.
func (t token) RequireTransportSecurity() bool { return true }

// outside is a folder that payloads may write to, beside their work folders.
func (g *grid) outside() string {
	g.t.Helper()
	dir := filepath.Join(g.dir, "outside")
	if err := errors.Join(os.MkdirAll(dir, 0o777), os.Chmod(dir, 0o777)); err != nil { // for payloads of another account
		g.t.Fatal(err)
	}
	return dir
}
