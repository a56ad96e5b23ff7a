package storage_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/webdav"

	"github.com/pilotage-grid/pilotage/cache/storage"
	"github.com/pilotage-grid/pilotage/cache/storage/storagetest"
)

// A WebDAV server that was not written for this package.
func TestListsOfAnotherServer(t *testing.T) {
	listener := httptest.NewServer(&webdav.Handler{FileSystem: webdav.NewMemFS(), LockSystem: webdav.NewMemLS()})
	t.Cleanup(listener.Close)
	storagetest.Lists(t, element(t, newClient(t, storage.Options{}), listener.URL+"/vo/pilotage"))
}

// What answers otherwise than WebDAV servers do is not taken for an empty folder.
func TestListsOfOthers(t *testing.T) {
	const head = `<?xml version="1.0"?><multistatus xmlns="DAV:">`
	response := func(href string) string {
		return `<response><href>` + href + `</href><propstat><prop><resourcetype><collection/></resourcetype></prop></propstat></response>`
	}
	for name, c := range map[string]struct {
		status int
		answer string
		want   string // names, "error" is any
		kind   error
	}{
		"its own URL before the path": {207, head + response("http://elsewhere.example/f/") + response("http://elsewhere.example/f/a%2Bb/") + `</multistatus>`, "a+b/", nil},
		"without its end":             {207, head + response("/f/") + response("/f/a/"), "", storage.ErrUnsupported},
		"other places":                {207, head + response("/g/") + response("/g/a/") + `</multistatus>`, "", storage.ErrUnsupported},
		"names that are none":         {207, head + response("/f/") + response("/f/..") + response("/f/~a/") + response("/f/%2e%2e%2fa/") + response("/f/a/b/") + `</multistatus>`, "", nil},
		"no method":                   {405, "", "", storage.ErrUnsupported},
		"not implemented":             {501, "", "", storage.ErrUnsupported},
		"a page":                      {200, "<html></html>", "", storage.ErrUnsupported},
		"a page with 207":             {207, "<html><br></html>", "", storage.ErrUnsupported},
		"forbidden":                   {403, "", "", storage.ErrRefused},
		"away":                        {503, "", "", storage.ErrUnreachable},
		"endless":                     {207, head + response("/f/") + strings.Repeat(" ", 9<<20), "", storage.ErrUnsupported},
		"entities":                    {207, `<!DOCTYPE x [<!ENTITY a "/f/a">]>` + head + response("/f/") + response("&a;") + `</multistatus>`, "", storage.ErrUnsupported},
	} {
		server, url := serve(t)
		server.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != "PROPFIND" || r.URL.Path != "/f/" || r.Header.Get("Depth") != "1" {
				t.Errorf("%s: %s %s, depth %s", name, r.Method, r.URL.Path, r.Header.Get("Depth"))
			}
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.answer)
			return true
		})
		names, err := newClient(t, storage.Options{Retry: (&patience{}).retry(2, 10)}).List(t.Context(), url, "f", 10)
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if !errors.Is(err, c.kind) {
			t.Errorf("%s: %v, want %v", name, err, c.kind)
		}
	}
}

// A folder with very many members costs what was asked for.
func TestListStopsAtItsLimit(t *testing.T) {
	server, url := serve(t)
	var sent atomic.Int64
	server.SetFault(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusMultiStatus)
		_, _ = io.WriteString(w, `<multistatus xmlns="DAV:">`)
		for i := range 100_000 {
			n, err := fmt.Fprintf(w, `<response><href>/f/a%d</href></response>`, i)
			sent.Add(int64(n))
			if err != nil {
				break
			}
		}
		return true
	})
	names, err := newClient(t, storage.Options{}).List(t.Context(), url, "f", 10)
	if err != nil || len(names) != 10 || sent.Load() > 3_000_000 {
		t.Errorf("%d names, %d bytes sent, %v", len(names), sent.Load(), err)
	}
}

// The folder of a file system that is not mounted is not empty: it is not there.
func TestListOfWhatIsNotMounted(t *testing.T) {
	client, dir := newClient(t, storage.Options{}), t.TempDir()
	if _, err := client.List(t.Context(), storage.FileURL(dir), "f", 10); err == nil || strings.Contains(err.Error(), "no such file") {
		t.Errorf("an empty folder: %v", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "other"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := client.List(t.Context(), storage.FileURL(dir), "f", 10); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("a folder without f: %v", err)
	}
}
