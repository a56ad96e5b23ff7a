package storage_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/cache/storage"
	"github.com/pilotage-grid/pilotage/cache/storage/storagetest"
)

// patience records pauses instead of waiting.
type patience struct {
	mu     sync.Mutex
	pauses []time.Duration
}

func (p *patience) retry(attempts, budget int) storage.Retry {
	return storage.Retry{
		Attempts: attempts, Budget: budget, Base: time.Second, Cap: 10 * time.Second,
		Random: func() float64 { return 0.5 },
		Sleep: func(ctx context.Context, pause time.Duration) error {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.pauses = append(p.pauses, pause)
			return ctx.Err()
		},
	}
}

func answer(status int) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(status)
		return true
	}
}

func TestStatusKinds(t *testing.T) {
	server, url := serve(t)
	var waited patience
	e := element(t, newClient(t, storage.Options{Retry: waited.retry(2, 1000)}), url)
	for status, want := range map[int]struct {
		kind      error
		temporary bool
	}{
		401: {storage.ErrRefused, false}, 403: {storage.ErrRefused, false}, 404: {storage.ErrNotFound, false}, 410: {storage.ErrNotFound, false},
		413: {storage.ErrFull, false}, 507: {storage.ErrFull, false}, 429: {storage.ErrUnreachable, true},
		500: {storage.ErrUnreachable, true}, 503: {storage.ErrUnreachable, true}, 418: {nil, false}, 204: {nil, false}, 206: {nil, false},
	} {
		server.SetFault(answer(status))
		waited.pauses = nil
		_, _, err := e.Get(t.Context(), "x", 0)
		var failed *storage.Error
		if !errors.As(err, &failed) || failed.Status != status || !errors.Is(failed.Kind, want.kind) || storage.Temporary(err) != want.temporary {
			t.Errorf("status %d: %v", status, err)
		}
		if !strings.Contains(err.Error(), url+"/x") || !errors.Is(err, storage.ErrNotFound) && failed.Advice == "" {
			t.Errorf("status %d does not say where or what to do: %v", status, err)
		}
		if (len(waited.pauses) == 1) != want.temporary {
			t.Errorf("status %d was tried again after %v", status, waited.pauses)
		}
	}
}

// TestRetryBacksOff: full jitter on doubling pauses, the server's wish within
// the cap, then success.
func TestRetryBacksOff(t *testing.T) {
	server, url := serve(t)
	var waited patience
	e := element(t, newClient(t, storage.Options{Retry: waited.retry(7, 100)}), url)
	if _, err := e.Put(t.Context(), "x", 5, strings.NewReader("hello")); err != nil {
		t.Fatal(err)
	}
	tries := 0
	server.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
		tries++
		switch tries {
		case 2:
			w.Header().Set("Retry-After", "3")
		case 3:
			w.Header().Set("Retry-After", "86400")
		case 7:
			return false
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	reader, _, err := e.Get(t.Context(), "x", 0)
	if err != nil {
		t.Fatal(err)
	}
	read(t, reader)
	s := time.Second
	if want := []time.Duration{s / 2, 3 * s, 10 * s, 4 * s, 5 * s, 5 * s}; !slices.Equal(waited.pauses, want) {
		t.Errorf("paused %v, want %v", waited.pauses, want)
	}
}

// TestRetryBudget: an element that is down for all gets hardly more requests
// than if nobody retried.
func TestRetryBudget(t *testing.T) {
	server, url := serve(t)
	server.SetFault(answer(http.StatusServiceUnavailable))
	var waited patience
	e := element(t, newClient(t, storage.Options{Retry: waited.retry(4, 5)}), url)
	for range 100 {
		if _, err := e.Head(t.Context(), "x"); !storage.Temporary(err) {
			t.Fatal(err)
		}
	}
	if got := server.Requests()[http.MethodHead]; got != 105 {
		t.Errorf("%d requests for 100 calls, want 105", got)
	}
	server.SetFault(nil)
	if _, err := e.Put(t.Context(), "x", 0, strings.NewReader("")); err != nil {
		t.Fatal(err)
	}
	for range 10 { // ten successes earn one retry
		if _, err := e.Head(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
	}
	server.SetFault(answer(http.StatusServiceUnavailable))
	before := server.Requests()[http.MethodHead]
	if _, err := e.Head(t.Context(), "x"); err == nil {
		t.Fatal("no error")
	}
	if got := server.Requests()[http.MethodHead] - before; got != 2 {
		t.Errorf("%d tries after earning a retry, want 2", got)
	}
}

func TestUnreachable(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	var waited patience
	client := newClient(t, storage.Options{Retry: waited.retry(3, 10)})
	_, _, err = client.OpenReplica(t.Context(), url+"/x?token=secret", 0)
	if !errors.Is(err, storage.ErrUnreachable) || !storage.Temporary(err) || !strings.Contains(err.Error(), url+"/x: ") || !strings.Contains(err.Error(), "check the URL") {
		t.Errorf("got %v", err)
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("the query is shown: %v", err)
	}
	if len(waited.pauses) != 2 {
		t.Errorf("paused %v", waited.pauses)
	}
	server := httptest.NewUnstartedServer(storagetest.NewServer())
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of the broken handshake
	server.StartTLS()
	defer server.Close()
	_, _, err = client.OpenReplica(t.Context(), server.URL+"/x", 0)
	if !errors.Is(err, storage.ErrUnreachable) || storage.Temporary(err) || !strings.Contains(err.Error(), "not trusted") {
		t.Errorf("unknown authority: %v", err)
	}
}

// TestBodiesThatLie: short, endless, or not what was asked for.
func TestBodiesThatLie(t *testing.T) {
	server, url := serve(t)
	client := newClient(t, storage.Options{MaxUnsized: 1000})
	e := element(t, client, url)
	fault := func(header map[string]string, status, size int) {
		server.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
			for name, value := range header {
				w.Header().Set(name, value)
			}
			w.WriteHeader(status)
			_, _ = w.Write(make([]byte, size)) // may be more than announced, or refused by the client
			return true
		})
	}
	fault(map[string]string{"Content-Length": "100"}, 200, 50)
	reader, size, err := e.Get(t.Context(), "x", 0)
	if err != nil || size != 100 {
		t.Fatal(size, err)
	}
	_, err = io.ReadAll(reader)
	if !errors.Is(err, io.ErrUnexpectedEOF) || !storage.Temporary(err) {
		t.Errorf("short body: %v", err)
	}
	if err := reader.Close(); err != nil {
		t.Error(err)
	}

	fault(map[string]string{"Transfer-Encoding": "chunked"}, 200, 1000)
	reader, size, err = e.Get(t.Context(), "x", 0)
	if err != nil || size != -1 {
		t.Fatal(size, err)
	}
	if data := read(t, reader); len(data) != 1000 {
		t.Errorf("%d bytes without announced size", len(data))
	}
	fault(map[string]string{"Transfer-Encoding": "chunked"}, 200, 1001)
	if reader, _, err = e.Get(t.Context(), "x", 0); err != nil {
		t.Fatal(err)
	}
	if data, err := io.ReadAll(reader); err == nil || len(data) > 1000 || !strings.Contains(err.Error(), "more than is accepted") {
		t.Errorf("endless body: %d bytes, %v", len(data), err)
	}
	if err := reader.Close(); err != nil {
		t.Error(err)
	}

	for name, header := range map[string]map[string]string{
		"other range":      {"Content-Range": "bytes 0-9/10", "Content-Length": "10"},
		"other length":     {"Content-Range": "bytes 5-9/10", "Content-Length": "4"},
		"no range":         {},
		"nonsense":         {"Content-Range": "bytes x-y/z"},
		"backwards":        {"Content-Range": "bytes 5-4/10"},
		"beyond its total": {"Content-Range": "bytes 5-10/10"},
		"encoded":          {"Content-Range": "bytes 5-9/10", "Content-Encoding": "gzip"},
	} {
		fault(header, 206, 4)
		if _, _, err := e.Get(t.Context(), "x", 5); err == nil || storage.Temporary(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestServerWithoutRanges sends the whole file each time.
func TestServerWithoutRanges(t *testing.T) {
	server, url := serve(t)
	e := element(t, newClient(t, storage.Options{}), url)
	server.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
		fmt.Fprint(w, "0123456789")
		return true
	})
	reader, size, err := e.Get(t.Context(), "x", 7)
	if err != nil || size != 10 {
		t.Fatal(size, err)
	}
	if data := read(t, reader); string(data) != "789" {
		t.Errorf("got %q", data)
	}
	if _, _, err := e.Get(t.Context(), "x", 11); !errors.Is(err, storage.ErrOffset) {
		t.Errorf("beyond the end: %v", err)
	}
}

// TestPutSurvivesInterruption: the first try breaks in the middle of the body.
func TestPutSurvivesInterruption(t *testing.T) {
	server, url := serve(t)
	var waited patience
	e := element(t, newClient(t, storage.Options{Retry: waited.retry(3, 10)}), url)
	tries := 0
	server.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut {
			return false
		}
		if tries++; tries > 1 {
			return false
		}
		_, _ = io.CopyN(io.Discard, r.Body, 1000)
		panic(http.ErrAbortHandler)
	})
	data := bytes.Repeat([]byte("0123456789"), 300_000)
	if _, err := e.Put(t.Context(), "x", int64(len(data)), bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(server.Files()["/x"], data) || tries != 2 {
		t.Errorf("after %d tries the server has %d bytes", tries, len(server.Files()["/x"]))
	}
}

// TestPutNoticesTruncation: a server that keeps less than it confirmed.
func TestPutNoticesTruncation(t *testing.T) {
	server, url := serve(t)
	e := element(t, newClient(t, storage.Options{}), url)
	server.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut {
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(http.StatusCreated)
		} else {
			w.Header().Set("Content-Length", "3")
		}
		return true
	})
	if _, err := e.Put(t.Context(), "x", 10, strings.NewReader("0123456789")); !errors.Is(err, storage.ErrSize) || !storage.Temporary(err) {
		t.Errorf("got %v", err)
	}
}

// TestFoldersAreMadeOnce: only the first file of a folder costs extra requests.
func TestFoldersAreMadeOnce(t *testing.T) {
	server, url := serve(t)
	e := element(t, newClient(t, storage.Options{}), url+"/vo/area")
	for i := range 3 {
		if _, err := e.Put(t.Context(), fmt.Sprintf("a/b/%d", i), 1, strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
	}
	// The first file is refused, then /vo/area/a/b and each above it to /vo,
	// which can be made; then the same way down.
	if got := server.Requests(); got["PUT"] != 4 || got["MKCOL"] != 7 {
		t.Errorf("requests %v", got)
	}
}

// A server that gives a byte now and then does not hold a caller for as long as it likes.
func TestDrippingTransfersEnd(t *testing.T) {
	server, url := serve(t)
	const size = 500
	server.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Content-Length", strconv.Itoa(size))
		for range size {
			fmt.Fprint(w, "x")
			if http.NewResponseController(w).Flush() != nil {
				break
			}
			select {
			case <-time.After(2 * time.Millisecond):
			case <-r.Context().Done():
			}
		}
		return true
	})
	var waited patience
	e := element(t, newClient(t, storage.Options{Timeouts: storage.Timeouts{Stall: 100 * time.Millisecond}, Retry: waited.retry(1, 10)}), url)
	reader, _, err := e.Get(t.Context(), "body", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if data, err := io.ReadAll(reader); len(data) == size || !storage.Temporary(err) || !strings.Contains(err.Error(), "hardly a byte") {
		t.Errorf("%d bytes came one by one: %v", len(data), err)
	}
}

// TestStalledTransfersEnd: neither an answer nor a body that stands still
// holds a caller for ever, and neither looks like the caller's own wish.
func TestStalledTransfersEnd(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		server := storagetest.NewServer()
		listener := httptest.NewUnstartedServer(server)
		listener.EnableHTTP2 = http2
		listener.StartTLS()
		t.Cleanup(listener.Close)
		var waited patience
		e := element(t, newClient(t, storage.Options{
			Client:   listener.Client(),
			Timeouts: storage.Timeouts{Stall: 30 * time.Millisecond}, Retry: waited.retry(2, 10),
		}), listener.URL)
		server.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
			if strings.HasSuffix(r.URL.Path, "body") {
				w.Header().Set("Content-Length", "100")
				fmt.Fprint(w, "some")
				http.NewResponseController(w).Flush()
			}
			<-r.Context().Done()
			return true
		})
		reader, _, err := e.Get(t.Context(), "body", 0)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(reader)
		if string(data) != "some" || !storage.Temporary(err) || errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "hardly a byte came through") {
			t.Errorf("stalled body, HTTP/2 %t: %q, %v", http2, data, err)
		}
		if err := reader.Close(); err != nil {
			t.Error(err)
		}
	}
	server, url := serve(t)
	server.SetFault(func(_ http.ResponseWriter, r *http.Request) bool {
		<-r.Context().Done()
		return true
	})
	var waited patience
	e := element(t, newClient(t, storage.Options{Timeouts: storage.Timeouts{Header: 30 * time.Millisecond}, Retry: waited.retry(2, 10)}), url)
	if _, _, err := e.Get(t.Context(), "answer", 0); !errors.Is(err, storage.ErrUnreachable) || !storage.Temporary(err) || len(waited.pauses) != 1 {
		t.Errorf("no answer: %v after %v", err, waited.pauses)
	}
}
