package server_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/identity"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/taskqueue/page"
	"github.com/pilotage-grid/pilotage/taskqueue/server"
)

// viewer is a browser that has logged in with a new access of a role; nil if it is
// not let in.
func (q *queue) viewer(role, site string) func(method, path, body string) (int, io.Reader) {
	q.t.Helper()
	made, err := q.admin().CreateAccess(q.ctx, &pb.CreateAccessRequest{Role: role, Site: site})
	if err != nil {
		q.t.Fatal(err)
	}
	var access identity.AccessFile
	if err := json.Unmarshal(made.GetAccessFile(), &access); err != nil {
		q.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(q.caPEM())
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}}}
	q.t.Cleanup(client.CloseIdleConnections)
	var cookies []*http.Cookie
	do := func(method, path, body string) (int, io.Reader) {
		q.t.Helper()
		request, err := http.NewRequestWithContext(q.ctx, method, "https://"+q.server.Addresses().HTTP+path, strings.NewReader(body))
		if err != nil {
			q.t.Fatal(err)
		}
		for _, cookie := range cookies {
			request.AddCookie(cookie)
		}
		reply, err := client.Do(request)
		if err != nil {
			q.t.Fatal(err)
		}
		q.t.Cleanup(func() { _ = reply.Body.Close() })
		if path == "/login" {
			cookies = reply.Cookies()
		}
		return reply.StatusCode, reply.Body
	}
	if code, _ := do("POST", "/login", string(made.GetAccessFile())); code != http.StatusNoContent {
		return nil
	}
	return do
}

// People see what their role lets them see, as by gRPC, and attempts as they end.
func TestTheLivePageShowsTheQueue(t *testing.T) {
	q, p, name := cachedOutput(t)
	for _, role := range []string{"pilot", "factory"} {
		if q.viewer(role, "siteA") != nil {
			t.Errorf("role %s looks at the page", role)
		}
	}
	do := q.viewer("read-only", "")
	if do == nil {
		t.Fatal("a read-only access is not let in")
	}
	content := func(method, path, body string) string {
		t.Helper()
		code, reply := do(method, path, body)
		text, err := io.ReadAll(reply)
		if err != nil || code != http.StatusOK {
			t.Errorf("%s: %d, %v, %s", path, code, err, text)
		}
		return string(text)
	}
	if !strings.Contains(content("GET", "/", ""), "<title>Pilotage</title>") {
		t.Error("no page")
	}
	if got := content("POST", "/call/SiteService/ListSites", "{}"); !strings.Contains(got, `"siteA"`) {
		t.Errorf("sites: %s", got)
	}
	workflow, _, _ := strings.Cut(name, ":")
	if got := content("POST", "/call/TaskService/ListTasks", `{"workflow":"`+workflow+`"}`); !strings.Contains(got, "TASK_STATE_DONE") {
		t.Errorf("tasks: %s", got)
	}
	var history page.History
	if err := json.Unmarshal([]byte(content("GET", "/history?site=siteA", "")), &history); err != nil || len(history.Bars) != 1 || !history.Bars[0].OK || history.Bars[0].Pilot != p.id {
		t.Errorf("%+v, %v", history.Bars, err)
	}
	if !slices.ContainsFunc(history.Events, func(e page.Event) bool { return e.Kind == "pilot-joined" && e.Pilot == p.id }) {
		t.Errorf("events: %+v", history.Events)
	}
	if got := content("POST", "/call/TaskService/GetWorkflowSteps", `{"workflow":"`+workflow+`"}`); !strings.Contains(got, `"done":1`) {
		t.Errorf("steps: %s", got)
	}
	_, metrics := q.get("/metrics")
	for _, want := range []string{
		`pilotage_tasks{site="",state="DONE"} 1`, `pilotage_attempts_total{outcome="succeeded",reason="",site="siteA"} 1`,
		`pilotage_events_total{kind="pilot-joined",site="siteA"} 1`, `pilotage_pilots{site="siteA",state="alive"} 1`, `pilotage_build_info{`, `pilotage_store_commit_seconds_count`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	watch, err := q.admin().WatchEvents(q.ctx, &pb.WatchEventsRequest{Site: "siteA"})
	if err != nil {
		t.Fatal(err)
	}
	if told, err := watch.Recv(); err != nil || told.GetEvents()[0].GetKind() != "pilot-joined" {
		t.Errorf("%v, %v", told, err)
	}
	_, live := do("GET", "/live", "")
	stream := bufio.NewScanner(live)
	for stream.Scan() {
		if data, is := strings.CutPrefix(stream.Text(), "data: "); is {
			var look page.Look
			if err := json.Unmarshal([]byte(data), &look); err != nil {
				t.Errorf("%s, %v", data, err)
			}
			if look.Total.Done == 1 && len(look.Sites) == 1 && look.Sites[0].Name == "siteA" {
				break
			}
		}
	}
	if err := stream.Err(); err != nil {
		t.Error(err)
	}
}

// Off loopback metrics are for those who may look; the certificate may be another
// authority's.
func TestMetricsAndCertificateOffLoopback(t *testing.T) {
	other, err := identity.NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	issued, err := other.IssueServer([]string{"127.0.0.1"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(issued.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files := server.WebConfig{Certificate: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	for name, block := range map[string]*pem.Block{files.Certificate: {Type: "CERTIFICATE", Bytes: issued.Certificate[0]}, files.Key: {Type: "PRIVATE KEY", Bytes: key}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	q := start(t, func(c *server.Config) { c.ListenHTTP, c.Web = "0.0.0.0:0", files })
	q.addSite("siteA")
	_, port, err := net.SplitHostPort(q.server.Addresses().HTTP)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	authority, _ := other.PEM()
	roots.AppendCertsFromPEM(authority)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}}}
	defer client.CloseIdleConnections()
	for role, want := range map[string]int{"": http.StatusUnauthorized, "read-only": http.StatusOK, "factory": http.StatusForbidden} {
		request, err := http.NewRequestWithContext(q.ctx, http.MethodGet, "https://127.0.0.1:"+port+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		if role != "" {
			asked := &pb.CreateAccessRequest{Role: role}
			if role == "factory" {
				asked.Site = "siteA"
			}
			made, err := q.admin().CreateAccess(q.ctx, asked)
			if err != nil {
				t.Fatal(err)
			}
			var access identity.AccessFile
			if err := json.Unmarshal(made.GetAccessFile(), &access); err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Authorization", "Bearer "+access.Token)
		}
		reply, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = reply.Body.Close()
		if reply.StatusCode != want {
			t.Errorf("role %q: %d, want %d", role, reply.StatusCode, want)
		}
	}
}

// What waits for a site counts although no pilot is there: in the list of sites, and as
// a metric, by whether a live pilot can run it. Two sites share it.
func TestWhatWaitsForASiteWithoutPilots(t *testing.T) {
	q := start(t)
	q.addSite("siteA")
	for i := range 3 {
		q.mustSubmit(single(fmt.Sprint("w", i)))
	}
	waits := func(sites ...int32) {
		t.Helper()
		list, err := q.admin().ListSites(q.ctx, &pb.ListSitesRequest{})
		if err != nil || len(list.GetSites()) != len(sites) {
			t.Fatalf("%v, %v", list, err)
		}
		_, metrics := q.get("/metrics")
		var all int32
		for i, wanted := range sites {
			name, got := list.GetSites()[i].GetSettings().GetName(), list.GetSites()[i].GetWaiting()
			if wanted >= 0 && got != wanted || !strings.Contains(metrics, fmt.Sprintf("pilotage_demand_tasks{live=\"no\",site=%q} %d\n", name, got)) {
				t.Errorf("%s: %d wait, metrics:\n%s", name, got, metrics)
			}
			all += got
		}
		if all != 3 {
			t.Errorf("%d tasks wait of 3", all)
		}
	}
	waits(3)
	q.addSite("siteB")
	waits(-1, -1)
}
