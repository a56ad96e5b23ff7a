package integration

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// A pilot is killed when its output is on the storage element and the answer to its
// upload has not come: nobody was told of the copy. It is looked for there and found,
// by another pilot of the site or by the next one, and nothing runs again.
func TestCopiesThatNobodyToldAreFound(t *testing.T) {
	t.Parallel()
	t.Run("another pilot", func(t *testing.T) { untold(t, true) })
	t.Run("the next pilot", func(t *testing.T) { untold(t, false) })
}

// silentElement is a storage element that takes files and, while it is silent, does
// not say so.
type silentElement struct {
	mu     sync.Mutex
	files  map[string][]byte
	silent bool
}

func (e *silentElement) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	content, there := e.files[r.URL.Path]
	e.mu.Unlock()
	switch r.Method {
	case http.MethodPut:
		content, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		e.mu.Lock()
		e.files[r.URL.Path] = content
		silent := e.silent
		e.mu.Unlock()
		if silent {
			<-r.Context().Done()
			return
		}
		w.WriteHeader(http.StatusCreated)
	case http.MethodGet, http.MethodHead:
		if !there {
			http.NotFound(w, r)
			return
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	default: // MKCOL, DELETE of a loser's copy
		w.WriteHeader(http.StatusCreated)
	}
}

func (e *silentElement) has(name string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for path := range e.files {
		if strings.HasSuffix(path, name) {
			return true
		}
	}
	return false
}

func (e *silentElement) speak() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.silent = false
}

func untold(t *testing.T, together bool) {
	element := &silentElement{files: make(map[string][]byte), silent: true}
	server := httptest.NewServer(element)
	t.Cleanup(server.Close)
	g := newGrid(t)
	g.must("site", "add", "siteA", "--se", server.URL)
	if together {
		g.addPilot("siteA")
	}
	maker := g.addPilot("siteA", "--feature", "maker")
	ledger := filepath.Join(g.outside(), "ledger")
	id := g.submitted("untold", `
tasks:
  make: {require: '"maker" in pilot.features', shell: "echo made >> `+ledger+`; echo kept > kept", outputs: [kept]}
outputs: [kept]
`)
	observe(g, "its task done", func() (uint64, bool) {
		tasks := g.site("siteA").GetTasks()
		return tasks, tasks == 1
	})
	observe(g, "its output on the storage element", func() (bool, bool) { return true, element.has("kept") })
	maker.kill()
	element.speak()
	g.addPilot("siteA", "--feature", "maker") // could run it again
	g.done(id)
	if got := g.output(id, "kept"); got != "kept\n" {
		t.Errorf("the output is %q", got)
	}
	ranOnce(t, ledger)
}
