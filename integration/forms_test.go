package integration

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

// After one workflow every listing parses in all of its forms, and /metrics
// tells the same as `site show`.
func TestListingsAndMetrics(t *testing.T) {
	t.Parallel()
	g := newGrid(t, "siteA", "siteB")
	p := g.addPilot("siteA")
	g.addPilot("siteA")
	writeFile(t, filepath.Join(g.dir, "in.txt"), strings.Repeat("x", 1000))
	id := g.submitted("figures", `
files: {in.txt: {source: ./in.txt}}
tasks:
  read:
    foreach: {n: "{0..7}"}
    inputs: [in.txt]
    shell: "sleep 0.1; cat in.txt > out.{n}"
    outputs: ["out.{n}"]
  all: {inputs: ["out.{0..7}"], shell: "cat out.* > all", outputs: [all]}
outputs: [all]
`, "--upload")
	g.done(id)
	task := id + "/all"
	for _, listing := range [][]string{
		{"workflow", "list"}, {"workflow", "show", id}, {"task", "list", id}, {"task", "list", id, "--full"}, {"task", "show", task},
		{"task", "explain", task}, {"task", "logs", task}, {"site", "list"}, {"site", "show", "siteA"}, {"pilot", "list"}, {"pilot", "show", p.id},
		{"file", "list"}, {"file", "locate", id + ":all"}, {"access", "list"}, {"workflow", "outputs", id, "--list"},
	} {
		t.Run(strings.Join(listing[:2], " "), func(t *testing.T) { forms(g.in(t), listing) })
	}
	t.Run("metrics", func(t *testing.T) { metrics(g.in(t)) })
	t.Run("health", func(t *testing.T) {
		if status, body := g.in(t).scrape("/healthz"); status != http.StatusOK || body != "ok\n" {
			t.Errorf("healthz: %d %q", status, body)
		}
	})
}

// forms wants a table without JSON, one JSON document, and one JSON document
// a line, the last two with the same content.
func forms(g *grid, listing []string) {
	t := g.t
	table := g.must(listing...)
	if listing[1] != "logs" && (table == "" || strings.HasPrefix(table, "{") || strings.HasPrefix(table, "[")) {
		t.Errorf("the table is %q", table)
	}
	if strings.Contains(table, "\x1b") {
		t.Errorf("terminal codes without a terminal: %q", table)
	}
	var whole any
	g.read(&whole, listing...)
	elements, isList := whole.([]any)
	if !isList {
		elements = []any{whole}
	}
	lines := strings.Split(strings.TrimSuffix(g.must(append([]string{"--output", "jsonl"}, listing...)...), "\n"), "\n")
	if len(lines) != len(elements) || len(elements) == 0 {
		t.Errorf("%d elements in %d lines", len(elements), len(lines))
	}
	for _, line := range lines {
		if err := json.Unmarshal([]byte(line), new(map[string]any)); err != nil {
			t.Errorf("line %q: %v", line, err)
		}
	}
}

// webAddress is where the queue's HTTPS is.
func (g *grid) webAddress() string {
	g.t.Helper()
	var run struct{ HTTP string }
	if err := json.Unmarshal([]byte(readFile(g.t, filepath.Join(g.dir, "queue", "run.json"))), &run); err != nil {
		g.t.Fatal(err)
	}
	return run.HTTP
}

// scrape reads a page of the queue's HTTPS.
func (g *grid) scrape(path string) (int, string) {
	g.t.Helper()
	authority := pool(g.t, readFile(g.t, filepath.Join(g.dir, "queue", "ca", "ca.pem")))
	client := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: authority, ServerName: "pilotage-queue", MinVersion: tls.VersionTLS13}, DisableKeepAlives: true,
	}}
	reply, err := client.Get("https://" + g.webAddress() + path)
	if err != nil {
		g.t.Fatal(err)
	}
	defer func() { _ = reply.Body.Close() }()
	body, err := io.ReadAll(reply.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	return reply.StatusCode, string(body)
}

var anID = regexp.MustCompile(`"[pw]-[a-z2-7]{8,}`)

func metrics(g *grid) {
	t := g.t
	// Counters follow the master's next report: wait until it is in, and read
	// both when nothing but calls was counted in between.
	var body string
	site := observe(g, "all reads of the workflow reported", func() (*pb.Site, bool) {
		before := g.site("siteA")
		status, text := g.scrape("/metrics")
		if status != http.StatusOK {
			t.Fatalf("metrics: %d\n%s", status, text)
		}
		body = text
		after := g.site("siteA")
		settled := reads(after.GetIntermediate())+reads(after.GetExternal()) == 16 && after.GetFreeSlots() == 2
		return after, settled && proto.Equal(countedAt(before), countedAt(after))
	})
	values := make(map[string]float64)
	scanner := bufio.NewScanner(strings.NewReader(body))
	for scanner.Scan() {
		line := scanner.Text()
		if name, value, found := cutLast(line, " "); found && strings.HasPrefix(line, "pilotage_") {
			number, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Errorf("metric %q: %v", line, err)
			}
			values[name] = number
		}
		if anID.MatchString(line) {
			t.Errorf("an id as label: %s", line)
		}
	}
	all := func(in, out uint64) float64 { return float64(in + out) }
	in, out := site.GetIntermediate(), site.GetExternal()
	for name, want := range map[string]float64{
		`pilotage_reads_total{site="siteA",source="local"}`:       all(in.GetLocalReads(), out.GetLocalReads()),
		`pilotage_reads_total{site="siteA",source="peer"}`:        all(in.GetPeerReads(), out.GetPeerReads()),
		`pilotage_reads_total{site="siteA",source="se"}`:          all(in.GetSeReads(), out.GetSeReads()),
		`pilotage_reads_total{site="siteA",source="remote"}`:      all(in.GetRemoteReads(), out.GetRemoteReads()),
		`pilotage_read_bytes_total{site="siteA",source="local"}`:  all(in.GetLocalBytes(), out.GetLocalBytes()),
		`pilotage_read_bytes_total{site="siteA",source="peer"}`:   all(in.GetPeerBytes(), out.GetPeerBytes()),
		`pilotage_read_bytes_total{site="siteA",source="se"}`:     all(in.GetSeBytes(), out.GetSeBytes()),
		`pilotage_read_bytes_total{site="siteA",source="remote"}`: all(in.GetRemoteBytes(), out.GetRemoteBytes()),
		`pilotage_se_bytes_saved_total{site="siteA"}`:             all(in.GetLocalBytes()+in.GetPeerBytes(), out.GetLocalBytes()+out.GetPeerBytes()),
		`pilotage_slots{site="siteA",state="free"}`:               2,
		`pilotage_slots{site="siteA",state="busy"}`:               0,
		`pilotage_slots{site="siteB",state="free"}`:               0,
		`pilotage_master_term{site="siteA"}`:                      epoch(t, site),
		`pilotage_master_changes_total{site="siteA"}`:             epoch(t, site) - 1,
		`pilotage_duplicate_outcomes_total`:                       float64(site.GetDuplicates()),
		`pilotage_stale_term_rejects_total`:                       float64(site.GetStaleTerms()),
		`pilotage_queue_requests_total{method="Register"}`:        float64(site.GetRequestsByMethod()["Register"]),
		`pilotage_inter_task_delay_seconds_count`:                 float64(site.GetDelayCount()),
	} {
		if got, there := values[name]; !there || got != want {
			t.Errorf("%s is %v (there: %v), want %v", name, got, there, want)
		}
	}
	if values[`pilotage_queue_requests_total{method="Sync"}`] < 1 || values[`pilotage_inter_task_delay_seconds_sum`] <= 0 || site.GetDelayCount() == 0 {
		t.Errorf("no Sync counted, or no delay: %v", values)
	}
	if reads(in) != 8 || reads(out) != 8 {
		t.Errorf("%d intermediate and %d external reads, want 8 and 8", reads(in), reads(out))
	}
	// Each pilot reads in.txt from the storage element at most once, the outputs
	// of its neighbour not even that unless nobody answers for long.
	if saved := values[`pilotage_se_bytes_saved_total{site="siteA"}`]; saved < 8000 {
		t.Errorf("%v bytes kept off the storage element, want at least half of 16,000", saved)
	}
	if n := site.GetSeTransfers(); n == 0 || site.GetSeTransferBytes() != 1000*n {
		t.Errorf("%d transfers of %d bytes from the storage element, want 1000 bytes each", n, site.GetSeTransferBytes())
	}
	wantText(t, "site show", g.must("site", "show", "siteA"), "9 done", "total hit ratio", "kept off the storage element", "term "+site.GetTerm(), "first pilot", "Sync")
}

// countedAt is what a site's record and the metrics have in common, without
// the calls, which go on all the time.
func countedAt(s *pb.Site) *pb.Site {
	return &pb.Site{
		FreeSlots: s.GetFreeSlots(), Intermediate: s.GetIntermediate(), External: s.GetExternal(), Duplicates: s.GetDuplicates(),
		SeTransfers: s.GetSeTransfers(), SeTransferBytes: s.GetSeTransferBytes(), DelayCount: s.GetDelayCount(),
		Term: s.GetTerm(), StaleTerms: s.GetStaleTerms(),
	}
}

// epoch is the number of a site's master, in the first place of its term.
func epoch(t *testing.T, s *pb.Site) float64 {
	t.Helper()
	text, _, _ := strings.Cut(s.GetTerm(), ".")
	number, err := strconv.ParseFloat(text, 64)
	if err != nil || number < 1 {
		t.Fatalf("term %q: %v", s.GetTerm(), err)
	}
	return number
}

func reads(s *pb.SourceSums) uint64 {
	return s.GetLocalReads() + s.GetPeerReads() + s.GetSeReads() + s.GetRemoteReads()
}

func cutLast(text, separator string) (string, string, bool) {
	at := strings.LastIndex(text, separator)
	if at < 0 {
		return text, "", false
	}
	return text[:at], text[at+len(separator):], true
}
