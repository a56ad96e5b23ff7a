package storage_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pilotage-grid/pilotage/cache/storage"
	"github.com/pilotage-grid/pilotage/cache/storage/storagetest"
	"github.com/pilotage-grid/pilotage/task"
)

func secret(credentials ...task.StorageCredential) func() task.StorageSecrets {
	return func() task.StorageSecrets { return task.SealStorage(credentials) }
}

// TestTokenStaysAtHome: it goes to elements, and neither along redirects to
// other hosts, nor to hosts of replicas, nor in plain text over the network.
func TestTokenStaysAtHome(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	note := func(who string, next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			seen = append(seen, who+" "+r.Method+" "+r.Header.Get("Authorization")+r.Header.Get("Referer"))
			mu.Unlock()
			next.ServeHTTP(w, r)
		})
	}
	pool := httptest.NewServer(note("pool", storagetest.NewServer()))
	defer pool.Close()
	door := httptest.NewServer(note("door", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			w.Header().Set("Content-Length", "2097152")
			return
		}
		http.Redirect(w, r, pool.URL+r.URL.Path+"?signature=abc", http.StatusTemporaryRedirect)
	})))
	defer door.Close()
	client := newClient(t, storage.Options{Secrets: secret(task.StorageCredential{URL: door.URL, Token: "T"})})
	e := element(t, client, door.URL)
	data := bytes.Repeat([]byte("x"), 2<<20)
	if _, err := e.Put(t.Context(), "x", int64(len(data)), bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	for _, open := range []func() (io.ReadCloser, int64, error){
		func() (io.ReadCloser, int64, error) { return e.Get(t.Context(), "x", 0) },
		func() (io.ReadCloser, int64, error) { return client.OpenReplica(t.Context(), pool.URL+"/x", 0) },
	} {
		reader, _, err := open()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(read(t, reader), data) {
			t.Error("other content came back")
		}
	}
	want := []string{"door PUT Bearer T", "pool PUT ", "door HEAD Bearer T", "door GET Bearer T", "pool GET ", "pool GET "}
	if !slices.Equal(seen, want) {
		t.Errorf("seen %q, want %q", seen, want)
	}
}

func TestTokenNeedsTLS(t *testing.T) {
	var authorization string
	transport := roundTripper(func(r *http.Request) (*http.Response, error) {
		authorization = r.Header.Get("Authorization")
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Header: http.Header{}, Request: r}, nil
	})
	var credential task.StorageCredential
	client := newClient(t, storage.Options{
		Client:  &http.Client{Transport: transport},
		Secrets: func() task.StorageSecrets { return secret(credential)() },
	})
	for url, want := range map[string]string{
		"http://se.example/": "", "https://se.example/": "Bearer T", "http://127.0.0.1:1/": "Bearer T", "http://localhost/": "Bearer T", "http://[::1]/": "Bearer T",
	} {
		credential = task.StorageCredential{URL: url, Token: "T"}
		if _, err := element(t, client, url).Head(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		if authorization != want {
			t.Errorf("%s got %q, want %q", url, authorization, want)
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestRedirectsThatAreNotFollowed(t *testing.T) {
	server, url := serve(t)
	var waited patience
	e := element(t, newClient(t, storage.Options{Retry: waited.retry(3, 10)}), url)
	for name, test := range map[string]struct {
		status int
		to     string
		want   string
	}{
		"round and round": {307, "/x", "more than 5"},
		"other scheme":    {307, "ftp://host/x", "leads to ftp"},
		"put into get":    {302, "/y", "turn PUT into GET"},
	} {
		server.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodGet {
				return false
			}
			w.Header().Set("Location", test.to)
			w.WriteHeader(test.status)
			return true
		})
		_, err := e.Put(t.Context(), "x", 1, strings.NewReader("x"))
		if !errors.Is(err, storage.ErrRefused) || storage.Temporary(err) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	secure := httptest.NewTLSServer(http.RedirectHandler(url+"/x", http.StatusFound))
	defer secure.Close()
	_, err := element(t, newClient(t, storage.Options{Client: secure.Client()}), secure.URL).Head(t.Context(), "x")
	if !errors.Is(err, storage.ErrRefused) || !strings.Contains(err.Error(), "from https to http") {
		t.Errorf("to plain http: %v", err)
	}
}

// What a copy's URL or a redirect leads to is not this machine and not where clouds tell
// their machines who they are.
func TestNobodyIsLedToThisMachine(t *testing.T) {
	var waited patience
	client := newClient(t, storage.Options{Retry: waited.retry(1, 10)})
	for _, url := range []string{"http://169.254.169.254/latest/meta-data", "http://[fe80::1%25lo]/x", "http://[::ffff:169.254.169.254]/x"} {
		if _, _, err := client.OpenReplica(t.Context(), url, 0); err == nil || !strings.Contains(err.Error(), "link-local") {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, to := range []string{"http://127.0.0.1:1/x", "http://[::1]:1/x", "http://LocalHost.:1/x", "http://0.0.0.0:1/x", "http://[::ffff:127.0.0.1]:1/x"} {
		led := roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.URL.Hostname() != "se.example" {
				t.Errorf("%s was asked", r.URL)
			}
			return &http.Response{StatusCode: http.StatusTemporaryRedirect, Header: http.Header{"Location": {to}}, Body: http.NoBody, Request: r}, nil
		})
		away := newClient(t, storage.Options{Retry: waited.retry(1, 10), Client: &http.Client{Transport: led}})
		if _, _, err := away.OpenReplica(t.Context(), "http://se.example/x", 0); !errors.Is(err, storage.ErrRefused) {
			t.Errorf("a redirect to %s: %v", to, err)
		}
	}
}
