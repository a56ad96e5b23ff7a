//go:build site

package site

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

// accessFile is what a test needs of one.
type accessFile struct {
	Queue []string
	CAPEM string `json:"ca_pem"`
	Token string
}

func (l *lab) readAccess(path string) (a accessFile) {
	l.t.Helper()
	content, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(content, &a)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	return a
}

// registers makes the queue know so many pilots of a site, which only register.
func (l *lab) registers(pilots int) {
	l.t.Helper()
	access := l.readAccess(l.path("queue", "access", "pilot-siteA.json"))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(access.CAPEM))
	conn, err := grpc.NewClient(access.Queue[0], grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: roots, ServerName: "pilotage-queue", MinVersion: tls.VersionTLS13})))
	if err != nil {
		l.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ctx := metadata.AppendToOutgoingContext(context.Background(), "authorization", "Bearer "+access.Token)
	var group sync.WaitGroup
	var failed atomic.Pointer[error]
	for part := range 8 {
		group.Go(func() {
			for i := part; i < pilots; i += 8 {
				public, private, err := ed25519.GenerateKey(nil)
				if err == nil {
					_, err = pb.NewPilotServiceClient(conn).Register(ctx, &pb.RegisterRequest{
						Site: "siteA", PublicKey: public, Proof: ed25519.Sign(private, []byte("pilotage register siteA")), Addresses: []string{"/ip4/127.0.0.1/tcp/4001"},
						DataUrl: "https://127.0.0.1:4002", Host: fmt.Sprintf("node%04d", i/4), Resources: &pb.Resources{Cores: 8, MemoryBytes: 16 << 30, DiskBytes: 100 << 30}, Slots: 8,
						Version: "test", Ends: timestamppb.New(time.Now().Add(time.Hour)), OverlayProtocol: 2,
					})
				}
				if err != nil {
					failed.Store(&err)
					return
				}
			}
		})
	}
	group.Wait()
	if err := failed.Load(); err != nil {
		l.t.Fatal(*err)
	}
}

// cpu is the processor time that the lab's queue has used.
func (l *lab) cpu(queue *process) time.Duration {
	l.t.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", queue.cmd.Process.Pid))
	if err != nil {
		l.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(content), ") ")
	fields := strings.Fields(rest)
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * time.Second / 100
}

// view does for some time what a browser on the site's screen does, and counts bytes as they
// go over the network, without TLS.
func view(web, token string, life time.Duration, received *atomic.Int64) error {
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableCompression: true}} //nolint:gosec // the test's own queue
	defer client.CloseIdleConnections()
	ctx, stop := context.WithTimeout(context.Background(), life)
	defer stop()
	ask := func(method, path, body string) (io.ReadCloser, error) {
		request, err := http.NewRequestWithContext(ctx, method, "https://"+web+path, strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		request.Header.Set("Accept-Encoding", "gzip")
		request.AddCookie(&http.Cookie{Name: "pilotage", Value: token})
		reply, err := client.Do(request)
		if err != nil {
			return nil, err
		}
		if reply.StatusCode != http.StatusOK {
			return reply.Body, fmt.Errorf("%s: %s", path, reply.Status)
		}
		return reply.Body, nil
	}
	stream, err := ask("GET", "/live?site=siteA", "")
	if err != nil {
		return err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		lines := bufio.NewScanner(stream)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			received.Add(int64(len(lines.Bytes()) + 1))
		}
	}()
	for ctx.Err() == nil {
		for _, call := range [][2]string{
			{"/call/SiteService/GetSite", `{"name":"siteA"}`}, {"/call/SiteService/GetDemand", `{"site":"siteA"}`}, {"/call/PilotService/ListPilots", `{"site":"siteA","pageSize":200,"pageToken":""}`},
		} {
			body, err := ask("POST", call[0], call[1])
			if err != nil {
				break // its time is over
			}
			n, _ := io.Copy(io.Discard, body)
			_ = body.Close()
			received.Add(n)
		}
		select {
		case <-time.After(15 * time.Second): // as the page does with many pilots
		case <-ctx.Done():
		}
	}
	_ = stream.Close()
	<-done
	return nil
}

// With 1,500 pilots and 10,000 tasks the page is there soon, and viewers get and cost
// little. The figures are printed; what may fail the test is bounded well above them, as
// machines differ.
func TestThePageWithManyPilotsAndViewers(t *testing.T) {
	const viewers, life = 50, 20 * time.Second
	l := newLab(t)
	web := l.webAddress()
	l.registers(1500)
	l.must("access", "create", "--role", "read-only", "--to", l.path("look.json"))
	workflow := strings.TrimSpace(l.must("submit", "--parsable", "--array", "0-9999", "--", "true"))
	b := l.browse(1280, 900)
	b.logIn(web, l.path("look.json"))
	for _, screen := range []struct{ hash, word string }{{"", "1,500"}, {"#/site/siteA", "node0"}, {"#/workflow/" + workflow, "10,000"}} {
		do(b, chromedp.Navigate("about:blank"))
		b.received()
		do(b, chromedp.Navigate("https://"+web+"/"+screen.hash))
		b.until(screen.hash+" shows "+screen.word, fmt.Sprintf(`document.querySelector("main")?.innerText.includes(%q)`, screen.word))
		shown := value[float64](b, "performance.now()") // looked at every 100 ms
		paint := value[float64](b, `(performance.getEntriesByName("first-contentful-paint")[0] || {startTime: -1}).startTime`)
		t.Logf("%s: first paint after %.0f ms, with its data after %.0f ms, %d kB", screen.hash, paint, shown, b.received()/1000)
		if shown > 5000 {
			t.Errorf("%s is shown after %.0f ms", screen.hash, shown)
		}
	}
	do(b, chromedp.Navigate("about:blank"))

	token := l.readAccess(l.path("look.json")).Token
	cost := func(viewers int) (cpu time.Duration, bytes float64) {
		var received atomic.Int64
		before, began := l.cpu(l.queue), time.Now()
		var group sync.WaitGroup
		for range viewers {
			group.Go(func() {
				if err := view(web, token, life, &received); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if viewers == 0 {
			<-time.After(life) // what the queue does for itself
		}
		return time.Duration(float64(l.cpu(l.queue)-before) / time.Since(began).Seconds()), float64(received.Load()) / life.Seconds() / float64(max(1, viewers))
	}
	alone, _ := cost(0)
	watched, each := cost(viewers)
	t.Logf("the queue alone %d ms of a core each second, with %d viewers %d ms more; each gets %.1f kB/s", alone.Milliseconds(), viewers, (watched - alone).Milliseconds(), each/1000)
	if each > 20_000 {
		t.Errorf("a viewer gets %.0f bytes a second", each)
	}
	if watched-alone > 300*time.Millisecond {
		t.Errorf("%d viewers cost %s of a core a second", viewers, watched-alone)
	}
}
