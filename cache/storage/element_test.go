package storage_test

import (
	"bytes"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pilotage-grid/pilotage/cache/storage"
	"github.com/pilotage-grid/pilotage/cache/storage/storagetest"
	"github.com/pilotage-grid/pilotage/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFolderElement(t *testing.T) {
	storagetest.Run(t, func(t *testing.T) storage.Element {
		e, err := storage.NewClient(storage.Options{}).Element(storage.FileURL(t.TempDir()))
		if err != nil {
			t.Fatal(err)
		}
		return e
	})
}

// serve returns the URL of a small WebDAV server.
func serve(t *testing.T) (*storagetest.Server, string) {
	t.Helper()
	server := storagetest.NewServer()
	listener := httptest.NewServer(server)
	t.Cleanup(listener.Close)
	return server, listener.URL
}

func newClient(t *testing.T, opts storage.Options) *storage.Client {
	t.Helper()
	client := storage.NewClient(opts)
	t.Cleanup(client.Close)
	return client
}

func element(t *testing.T, client *storage.Client, url string) storage.Element {
	t.Helper()
	e, err := client.Element(url)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestWebElement(t *testing.T) {
	storagetest.Run(t, func(t *testing.T) storage.Element {
		_, url := serve(t)
		return element(t, newClient(t, storage.Options{}), url+"/vo/pilotage")
	})
}

func TestWebElementOverTLS(t *testing.T) {
	storagetest.Run(t, func(t *testing.T) storage.Element {
		listener := httptest.NewTLSServer(storagetest.NewServer())
		t.Cleanup(listener.Close)
		client := newClient(t, storage.Options{Client: listener.Client()})
		return element(t, client, listener.URL)
	})
}

func TestBadURLs(t *testing.T) {
	for url, want := range map[string]string{
		"":                              "write https://HOST/PATH",
		"ftp://host/x":                  "write https://HOST/PATH",
		"root://host//x":                "write https://HOST/PATH",
		"/just/a/path":                  "write https://HOST/PATH",
		"file://otherhost/x":            "file:///PATH",
		"file:relative":                 "file:///PATH",
		"file:///a%00b":                 "file:///PATH",
		"http:///x":                     "write https://HOST/PATH",
		"https://user:secret@host/x":    "holds a user name",
		"https://host/x?signature=abc":  "has a query",
		"https://host/x#y":              "has a fragment",
		"https://host/a\nb":             "control characters",
		"https://host:port/":            "cannot be parsed",
		"https://host/%zz":              "cannot be parsed",
		"file:///" + "\x7f":             "control characters",
		"http://[::1":                   "cannot be parsed",
		"file:///x?y":                   "file:///PATH",
		"https://:443/x":                "write https://HOST/PATH",
		"javascript:alert(1)":           "write https://HOST/PATH",
		"HTTPS://user@host/" + "secret": "holds a user name",
	} {
		_, err := storage.NewClient(storage.Options{}).Element(url)
		if !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "user:secret") {
			t.Errorf("%q: %v", url, err)
		}
	}
}

func read(t *testing.T, reader io.ReadCloser) []byte {
	t.Helper()
	data, err := io.ReadAll(reader)
	if err := errors.Join(err, reader.Close()); err != nil {
		t.Fatal(err)
	}
	return data
}

// TestFileReplicas: a replica's URL comes from users; it leads to known
// storage folders only.
func TestFileReplicas(t *testing.T) {
	base := t.TempDir()
	se, listed, secret := filepath.Join(base, "se"), filepath.Join(base, "listed"), filepath.Join(base, "se-secret")
	for _, dir := range []string{se, listed, secret} {
		if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, "with space"), []byte("hello"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink(secret, filepath.Join(se, "way-out")), os.Symlink("with space", filepath.Join(se, "inner"))); err != nil {
		t.Fatal(err)
	}
	client := newClient(t, storage.Options{FileRoots: []string{listed}})
	element(t, client, "file://"+se)
	for url, kind := range map[string]error{
		"file://" + se + "/with%20space":              nil,
		"file://" + se + "/inner":                     nil,
		"file://" + listed + "/with%20space":          nil,
		"file://" + secret + "/with%20space":          storage.ErrRefused,
		"file://" + se + "/../se-secret/with%20space": storage.ErrRefused,
		"file:///etc/passwd":                          storage.ErrRefused,
		"file://" + se + "/way-out/with%20space":      os.ErrInvalid, // stopped by os.Root; any error will do
		"file://" + se:                                storage.ErrNotFound,
		"file://" + se + "/none":                      storage.ErrNotFound,
	} {
		reader, size, err := client.OpenReplica(t.Context(), url, 1)
		switch {
		case kind == nil && err == nil:
			if data := read(t, reader); size != 5 || string(data) != "ello" {
				t.Errorf("%s: %q of %d", url, data, size)
			}
		case errors.Is(kind, os.ErrInvalid) && err != nil && !strings.Contains(err.Error(), "hello"):
		case !errors.Is(err, kind):
			t.Errorf("%s: got %v, want %v", url, err, kind)
		}
	}
}

func TestFolderThatIsMissing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not mounted")
	e, err := storage.NewClient(storage.Options{}).Element(storage.FileURL(dir))
	if err != nil {
		t.Fatal(err)
	}
	_, err = e.Put(t.Context(), "x", 1, strings.NewReader("x"))
	if !errors.Is(err, storage.ErrUnreachable) || errors.Is(err, storage.ErrNotFound) || !storage.Temporary(err) || !strings.Contains(err.Error(), "not%20mounted/x") || !strings.Contains(err.Error(), "mount its file system") {
		t.Errorf("put: %v", err)
	}
	if _, err := e.Head(t.Context(), "x"); !errors.Is(err, storage.ErrUnreachable) {
		t.Errorf("head: %v", err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Put(t.Context(), "x", 1, strings.NewReader("x")); err != nil {
		t.Errorf("after mounting: %v", err)
	}
	if info, err := os.Stat(filepath.Join(dir, "x")); err != nil || info.Mode().Perm()&0o007 != 0 {
		t.Errorf("everybody may read what is stored: %v %v", info, err)
	}
}

// TestFolderLeavesNoUnfinishedFiles: refused and cut-off writes leave nothing,
// what killed writers left goes after a day, and others' fresh files stay.
// What a task may be named and make, a storage element can keep: an output that
// can never be stored would keep its workflow from ever being over.
func TestAnyOutputOfATaskCanBeKept(t *testing.T) {
	long := strings.Repeat("l", 200)
	segment := strings.Repeat("s", task.MaxSegment)
	deep := task.LFN(segment + "/" + segment + "/" + segment + "/" + segment)
	e := element(t, newClient(t, storage.Options{}), storage.FileURL(t.TempDir()))
	places := map[string]bool{}
	for _, name := range []string{long + "[" + long + "]", long + "[" + long[1:] + "x]"} {
		id := task.NewID("w-5qbpymy7np", name)
		attempt := task.AttemptID{Task: id, Generation: 1000, Lease: 1 << 60, Pilot: "p-5qbpymy7", Counter: 1 << 30}
		for _, out := range []task.LFN{deep, "o"} {
			made := task.Task{ID: id, Shell: "x", Walltime: time.Hour, Resources: task.Resources{Cores: 1, Memory: 1}, Outputs: []task.Output{{LFN: out, Name: "o"}}}
			if err := made.Validate(); err != nil {
				t.Fatal(err)
			}
			place := task.StorageName(attempt, out)
			_, err := e.Put(t.Context(), place, 1, strings.NewReader("x"))
			if err != nil {
				t.Errorf("%.60s...: %v", place, err)
			}
			places[place] = true
		}
	}
	if len(places) != 4 {
		t.Errorf("%d places for 4 outputs", len(places))
	}
}

func TestFolderLeavesNoUnfinishedFiles(t *testing.T) {
	dir := t.TempDir()
	incoming := filepath.Join(dir, "~incoming")
	if err := os.Mkdir(incoming, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, age := range map[string]time.Duration{"old": 25 * time.Hour, "fresh": time.Hour} {
		path := filepath.Join(incoming, name)
		at := time.Now().Add(-age)
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	e, err := storage.NewClient(storage.Options{}).Element(storage.FileURL(dir))
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken source")
	if _, err := e.Put(t.Context(), "x", 100, &breaks{Reader: bytes.NewReader(make([]byte, 100)), after: 50, err: broken}); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	left, err := os.ReadDir(incoming)
	if err != nil || len(left) != 1 || left[0].Name() != "fresh" {
		t.Errorf("left: %v, %v", left, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "x")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a half file is visible: %v", err)
	}
}

// TestFolderFileThatShrinks while it is read ends with an error.
func TestFolderFileThatShrinks(t *testing.T) {
	dir := t.TempDir()
	e, err := storage.NewClient(storage.Options{}).Element(storage.FileURL(dir))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Put(t.Context(), "x", 1000, bytes.NewReader(make([]byte, 1000))); err != nil {
		t.Fatal(err)
	}
	reader, _, err := e.Get(t.Context(), "x", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if err := os.Truncate(filepath.Join(dir, "x"), 400); err != nil {
		t.Fatal(err)
	}
	if data, err := io.ReadAll(reader); len(data) != 400 || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%d bytes, %v", len(data), err)
	}
}

// breaks is a source that fails half-way.
type breaks struct {
	*bytes.Reader
	after int
	err   error
}

func (b *breaks) Read(p []byte) (int, error) {
	if b.after == 0 {
		return 0, b.err
	}
	n, err := b.Reader.Read(p[:min(len(p), b.after)])
	b.after -= n
	return n, err
}

func FuzzNamesStayInside(f *testing.F) {
	for _, seed := range []string{"a", "../x", "a/../../x", "/etc/passwd", "~incoming/x", "a\x00", "%2e%2e/x", "w-a:b/c+d=e@f"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		base := t.TempDir()
		dir := filepath.Join(base, "se")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		e, err := storage.NewClient(storage.Options{}).Element(storage.FileURL(dir))
		if err != nil {
			t.Fatal(err)
		}
		_, err = e.Put(t.Context(), name, 1, strings.NewReader("x"))
		entries, readErr := os.ReadDir(base)
		if readErr != nil || len(entries) != 1 {
			t.Fatalf("%q left the folder: %v, %v", name, entries, readErr)
		}
		info, headErr := e.Head(t.Context(), name)
		if (err == nil) != (headErr == nil) || err == nil && info.Size != 1 {
			t.Errorf("%q: put %v, head %+v %v", name, err, info, headErr)
		}
	})
}
