package page_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue/page"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// queue plays the backend: one token is good.
type queue struct {
	looks  atomic.Int64
	called atomic.Value
}

func (q *queue) Admit(token string) error {
	if token != "good" {
		return status.Error(codes.Unauthenticated, "the token is not known")
	}
	return nil
}

func (q *queue) Call(_ context.Context, token, method string, request proto.Message) (proto.Message, error) {
	q.called.Store(method)
	if site, is := request.(*pb.GetSiteRequest); is {
		if site.GetName() == "none" {
			return nil, status.Error(codes.NotFound, "site none: not found")
		}
		return &pb.GetSiteResponse{Site: &pb.Site{Settings: &pb.SiteSettings{Name: site.GetName()}}}, nil
	}
	return nil, status.Errorf(codes.PermissionDenied, "%s may not", token)
}

func (q *queue) Look(context.Context) (page.Look, error) {
	q.looks.Add(1)
	return page.Look{Time: 1, Ready: 7, Sites: []page.SiteLook{{Name: "<b>siteA"}}}, nil
}

func (q *queue) Sees(_ context.Context, _, workflow string) bool { return workflow != "w-other" }

func (q *queue) LooksAfter(_, site string) bool { return site != "siteB" }

func (q *queue) Events(after uint64, site string, most int) ([]page.Event, uint64) {
	if after > 0 || most == 0 {
		return nil, 1
	}
	return []page.Event{{Number: 1, Kind: "pilot-joined", Site: site}}, 1
}

// answer is what a call of the page got; its body is closed with the test.
type answer struct {
	code    int
	header  http.Header
	cookies []*http.Cookie
	body    io.Reader
}

// browser calls a page over TLS.
func browser(t *testing.T, q *queue) (*page.Page, string, func(method, path, body string, cookies ...*http.Cookie) answer) {
	t.Helper()
	p := page.New(q)
	server := httptest.NewTLSServer(p)
	t.Cleanup(server.Close)
	client := server.Client()
	return p, server.URL, func(method, path, body string, cookies ...*http.Cookie) answer {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for _, cookie := range cookies {
			request.AddCookie(cookie)
		}
		reply, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = reply.Body.Close() })
		return answer{reply.StatusCode, reply.Header, reply.Cookies(), reply.Body}
	}
}

func text(t *testing.T, reply answer) string {
	t.Helper()
	body, err := io.ReadAll(reply.body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestLoginAndWhatItOpens(t *testing.T) {
	q := &queue{}
	_, _, do := browser(t, q)
	if got := text(t, do("GET", "/history?site=siteB", "", &http.Cookie{Name: "pilotage", Value: "good"})); !strings.Contains(got, `"bars":[]`) {
		t.Errorf("a site without attempts: %s", got)
	}
	for path, method := range map[string]string{"/live": "GET", "/history": "GET", "/call/SiteService/GetSite": "POST"} {
		for _, cookie := range []*http.Cookie{{Name: "other", Value: "good"}, {Name: "pilotage", Value: "bad"}} {
			if reply := do(method, path, "{}", cookie); reply.code != http.StatusUnauthorized {
				t.Errorf("%s with cookie %s: %d", path, cookie, reply.code)
			}
		}
	}
	if got := text(t, do("POST", "/call/SiteService/GetSite", "{}", &http.Cookie{Name: "other", Value: "good"})); !strings.Contains(got, "POST to /login") {
		t.Errorf("without a cookie: %s", got)
	}
	if reply := do("POST", "/login", `{"token":"bad"}`); reply.code != http.StatusUnauthorized || !strings.Contains(text(t, reply), "not known") {
		t.Errorf("a bad token: %d", reply.code)
	}
	if reply := do("POST", "/login", `nonsense`); reply.code != http.StatusBadRequest {
		t.Errorf("nonsense: %d", reply.code)
	}
	if reply := do("POST", "/login", `{"token":"`+strings.Repeat("x", 100_000)+`"}`); reply.code == http.StatusNoContent {
		t.Error("a huge body is taken")
	}
	reply := do("POST", "/login", `{"token":" good "}`)
	cookies := reply.cookies
	if reply.code != http.StatusNoContent || len(cookies) != 1 {
		t.Fatalf("login: %d, %d cookies", reply.code, len(cookies))
	}
	if c := cookies[0]; !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteStrictMode {
		t.Errorf("the cookie is within reach of others: %s", c)
	}
	if reply := do("POST", "/call/SiteService/GetSite", `{"name":"siteA"}`, cookies[0]); reply.code != http.StatusOK || !strings.Contains(text(t, reply), `"siteA"`) {
		t.Errorf("a call: %d", reply.code)
	}
	if reply := do("POST", "/logout", ""); len(reply.cookies) != 1 || reply.cookies[0].MaxAge >= 0 {
		t.Error("logout leaves the cookie")
	}
}

// The page reads: methods that change something are not there, whoever asks.
func TestThePageOnlyReads(t *testing.T) {
	q := &queue{}
	_, _, do := browser(t, q)
	cookie := &http.Cookie{Name: "pilotage", Value: "good"}
	for path, want := range map[string]int{
		"/call/SiteService/GetSite":         200,
		"/call/SiteService/ListSites":       403, // as the backend says
		"/call/SiteService/DrainSite":       404,
		"/call/SiteService/CreateAccess":    404,
		"/call/SiteService/ListAccess":      404,
		"/call/TaskService/SubmitWorkflow":  404,
		"/call/TaskService/CancelWorkflow":  404,
		"/call/FileService/FetchFile":       404,
		"/call/PilotService/Register":       404,
		"/call/NoService/GetSite":           404,
		"/call/SiteService/GetNothing":      404,
		"/call/SiteService/GetSite%2Fx":     404,
		"/call/..%2F..%2Fetc/passwd":        404,
		"/call/SiteMode/ListSites":          404,
		"/call/SiteService.Get/ListSites":   404,
		"/call/pilotage.v1.Task/GetSite":    404,
		"/call/SiteService/GetSite?name=no": 200,
	} {
		if reply := do("POST", path, "{}", cookie); reply.code != want {
			t.Errorf("%s: %d, want %d", path, reply.code, want)
		}
	}
	for body, want := range map[string]int{`{"name":"none"}`: 404, `{"nome":"x"}`: 400, `[`: 400, `{"name":"` + strings.Repeat("x", 70_000) + `"}`: 413} {
		if reply := do("POST", "/call/SiteService/GetSite", body, cookie); reply.code != want {
			t.Errorf("%.40s: %d, want %d", body, reply.code, want)
		}
	}
}

func TestEveryAnswerForbidsForeignScripts(t *testing.T) {
	q := &queue{}
	_, url, do := browser(t, q)
	for _, path := range []string{"/", "/page.js", "/draw.js", "/screens.js", "/page.css", "/icon.svg", "/nothing", "/live", "/call/SiteService/GetSite"} {
		reply := do("GET", path, "")
		policy := reply.header.Get("Content-Security-Policy")
		if !strings.Contains(policy, "default-src 'self'") || strings.Contains(policy, "unsafe") || reply.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: policy %q", path, policy)
		}
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/login", strings.NewReader(`{"token":"good"}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Sec-Fetch-Site", "cross-site")
	recorder := httptest.NewRecorder()
	page.New(q).ServeHTTP(recorder, request)
	if recorder.Code != http.StatusForbidden {
		t.Errorf("a call from another page: %d", recorder.Code)
	}
}

// No script writes markup: names come from users, and are only ever text.
func TestScriptsSetTextOnly(t *testing.T) {
	files, err := filepath.Glob("static/*")
	if err != nil || len(files) < 5 {
		t.Fatalf("%v, %v", files, err)
	}
	markup := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|setAttribute\("on|<script>[^<]|javascript:|https?://(?:[^w]|www\.[^w])`)
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if found := markup.Find(content); found != nil {
			t.Errorf("%s has %q", file, found)
		}
	}
}

// A look is taken once for all viewers; the attempts of a site come as they end.
func TestTheStream(t *testing.T) {
	q := &queue{}
	p, url, _ := browser(t, q)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: insecure}}
	defer client.CloseIdleConnections()
	open := func(more string) *bufio.Scanner {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/live?site=siteA"+more, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.AddCookie(&http.Cookie{Name: "pilotage", Value: "good"})
		reply, err := client.Do(request)
		if err != nil || reply.StatusCode != http.StatusOK {
			t.Fatalf("%v, %v", reply, err)
		}
		t.Cleanup(func() { _ = reply.Body.Close() })
		return bufio.NewScanner(reply.Body)
	}
	next := func(s *bufio.Scanner, event string) string {
		t.Helper()
		for s.Scan() {
			if s.Text() == "event: "+event && s.Scan() {
				return strings.TrimPrefix(s.Text(), "data: ")
			}
		}
		t.Fatalf("the stream ended: %v", s.Err())
		return ""
	}
	var streams []*bufio.Scanner
	for range 10 {
		streams = append(streams, open(""))
	}
	for _, s := range streams {
		var look page.Look
		if err := json.Unmarshal([]byte(next(s, "look")), &look); err != nil || look.Ready != 7 || len(look.Sites) != 1 {
			t.Errorf("%+v, %v", look, err)
		}
	}
	if n := q.looks.Load(); n > 3 {
		t.Errorf("%d looks for the first message to ten viewers", n)
	}
	p.Began(page.Bar{Site: "siteA", Task: "t", Attempt: "a1", Pilot: "p"}, page.Bar{Site: "siteB", Task: "t", Attempt: "b1"})
	p.Ended(page.Bar{Site: "siteA", Task: "t", Attempt: "a0", Pilot: "p", Run: 5, OK: true})
	var bars []page.Bar
	if err := json.Unmarshal([]byte(next(streams[0], "bars")), &bars); err != nil || len(bars) != 2 || bars[0].Attempt != "a0" || bars[1].Attempt != "a1" {
		t.Errorf("%+v, %v", bars, err)
	}
	// What has happened between a viewer's history and its stream is not lost.
	if err := json.Unmarshal([]byte(next(open("&after=1"), "bars")), &bars); err != nil || len(bars) != 1 || bars[0].Attempt != "a0" {
		t.Errorf("behind a number: %+v, %v", bars, err)
	}
}

// Whoever may not look into a workflow sees that slots are busy with it, and no more.
func TestNamesOfOthersWorkAreNotShown(t *testing.T) {
	p, _, do := browser(t, &queue{})
	p.Began(page.Bar{Site: "siteA", Task: "w-other/secret", Attempt: "w-other/secret/a1", Pilot: "p"}, page.Bar{Site: "siteA", Task: "w-mine/open", Attempt: "w-mine/open/a1"})
	p.Ended(page.Bar{Site: "siteA", Task: "w-other/secret", Attempt: "w-other/secret/a1", Pilot: "p", Run: 3})
	p.Stored(page.Out{Site: "siteA", Attempt: "w-other/secret/a1", At: 5}, page.Out{Site: "siteA", Attempt: "w-mine/open/a1", At: 71}, page.Out{Site: "siteB", Attempt: "w-mine/open/a2", At: 72})
	p.Read([]task.Read{{LFN: "w-other:secret"}, {LFN: "w-mine:open"}, {LFN: "vo:all"}})
	for _, path := range []string{"/history?site=siteA", "/files"} {
		got := text(t, do("GET", path, "", &http.Cookie{Name: "pilotage", Value: "good"}))
		if strings.Contains(got, "secret") || !strings.Contains(got, "open") {
			t.Errorf("%s: %s", path, got)
		}
		if path != "/files" && !strings.Contains(got, `"outs":[{"id":"w-mine/open/a1","at":71}]`) {
			t.Errorf("what was stored, of the site and one's own: %s", got)
		}
	}
}

// The page names the levels of confinement as everything else does.
func TestThePageNamesConfinement(t *testing.T) {
	script, err := os.ReadFile("static/screens.js")
	if err != nil {
		t.Fatal(err)
	}
	if wanted := `confinements = ["` + strings.Join(task.ConfinementNames[:], `", "`) + `"]`; !strings.Contains(string(script), wanted) {
		t.Errorf("screens.js lacks %s", wanted)
	}
}

// A report needs nothing from elsewhere, and its names end no script.
func TestAReportIsOneFile(t *testing.T) {
	var out strings.Builder
	evil := "</script><script>hacked()</script><!--"
	if err := page.WriteReport(&out, &page.Report{Name: evil, Failed: []page.ReportTask{{ID: "w-a/x", Reason: evil}}}); err != nil {
		t.Fatal(err)
	}
	got := out.String()
	if strings.Contains(got, evil) || strings.Count(got, "<script") != 2 || regexp.MustCompile(`(src|href)=|url\(|@import`).MatchString(strings.ReplaceAll(got, "{href:", "")) {
		t.Error("names are markup, or something is loaded from elsewhere")
	}
	script := got[strings.LastIndex(got, "<script>")+len("<script>") : strings.LastIndex(got, "</script>")]
	sum := sha256.Sum256([]byte(script))
	if !strings.Contains(got, "script-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'") {
		t.Error("the browser would not run the report's script")
	}
}

// However much happens, what is remembered and sent is bounded.
func TestWhatIsRememberedIsBounded(t *testing.T) {
	p, _, do := browser(t, &queue{})
	for i := range 60_000 {
		p.Ended(page.Bar{Site: "siteA", Attempt: fmt.Sprint(i)})
		p.Stored(page.Out{Site: "siteA", Attempt: fmt.Sprint(i)})
	}
	for range 2_000 {
		if _, err := p.Record(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	reply := do("GET", "/history?site=siteA", "", &http.Cookie{Name: "pilotage", Value: "good"})
	var history page.History
	if err := json.Unmarshal([]byte(text(t, reply)), &history); err != nil {
		t.Fatal(err)
	}
	if len(history.Outs) != 3_000 || len(history.Bars) != 3_000 || history.Bars[0].Attempt != "59999" || len(history.Looks) > 240 || len(history.Looks) < 100 {
		t.Errorf("%d attempts from %s on, %d looks", len(history.Bars), history.Bars[0].Attempt, len(history.Looks))
	}
}

var insecure = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // the test's own server
