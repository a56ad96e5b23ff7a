package integration

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/webdav"
)

// element is a storage element that can be made to fail: a web server of this
// test, or a folder. Either keeps its files in dir.
type element struct {
	site string
	dir  string
	url  string
	host *host // nil for a folder

	mu      sync.Mutex
	fault   storageFault
	healed  chan struct{}        // closed when the fault is over
	deleted map[string]time.Time // by name, as the queue asked
	spoiled map[string]string    // by name: what was done to the file at rest
	calls   map[string]int       // by method
}

// storageFault is how an element of the web fails.
type storageFault string

const (
	answers500   storageFault = "answers 500"
	answers503   storageFault = "answers 503, Retry-After"
	stalls       storageFault = "does not answer"
	cutsShort    storageFault = "breaks off what it sends"
	isFull       storageFault = "is full"
	forgetsPuts  storageFault = "forgets what it took"
	halvesPuts   storageFault = "keeps half of what it took"
	sendsHTML    storageFault = "sends a page with 200 for a file"
	folderIsAway storageFault = "folder is away"
)

var webFaults = []storageFault{answers500, answers503, stalls, cutsShort, isFull, forgetsPuts, halvesPuts, sendsHTML}

func newElement(site, dir string) (*element, error) {
	e := &element{
		site: site, dir: dir, url: "file://" + dir,
		deleted: make(map[string]time.Time), spoiled: make(map[string]string), calls: make(map[string]int),
	}
	return e, os.MkdirAll(dir, 0o755)
}

// serve makes it a web server on a host.
func (e *element) serve(h *host) (stop func(), err error) {
	var listener net.Listener
	if err := h.in(func() error {
		listener, err = net.Listen("tcp", net.JoinHostPort(h.address, "0"))
		return err
	}); err != nil {
		return nil, err
	}
	e.host, e.url = h, "http://"+listener.Addr().String()+"/vo"
	server := &http.Server{Handler: e, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	return func() { _ = server.Close() }, nil
}

// fail begins a fault and returns what ends it.
func (e *element) fail(fault storageFault) (heal func() error, err error) {
	if fault == folderIsAway {
		away := e.dir + ".away"
		return func() error { return os.Rename(away, e.dir) }, os.Rename(e.dir, away)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	over := make(chan struct{})
	e.fault, e.healed = fault, over
	return func() error {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.fault = ""
		close(over)
		return nil
	}, nil
}

// spoil does harm to some files at rest of those that may be made again.
func (e *element) spoil(random *rand.Rand, how string, may func(name string) bool) (names []string, err error) {
	all, err := e.list()
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(name string) bool { return !may(name) })
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, name := range all[:min(len(all), 3)] {
		path := filepath.Join(e.dir, filepath.FromSlash(name))
		content, err := os.ReadFile(path)
		if err != nil {
			return names, err
		}
		switch how {
		case "lost":
			err = os.Remove(path)
		case "cut short":
			err = os.Truncate(path, int64(len(content)/2))
		case "garbled":
			err = os.WriteFile(path, bytes.ToUpper(content), 0o600)
		}
		if err != nil {
			return names, err
		}
		e.spoiled[name] = how
		names = append(names, name)
	}
	return names, nil
}

// list names all files on the element.
func (e *element) list() (names []string, err error) {
	err = filepath.WalkDir(e.dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && entry.Type().IsRegular() && !strings.HasPrefix(entry.Name(), ".") {
			name, _ := filepath.Rel(e.dir, path)
			names = append(names, filepath.ToSlash(name))
		}
		return err
	})
	return names, err
}

// ServeHTTP satisfies http.Handler.
func (e *element) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, below := strings.CutPrefix(r.URL.Path, "/vo/")
	if !below || strings.Contains(name, "..") {
		http.NotFound(w, r)
		return
	}
	e.mu.Lock()
	fault, healed := e.fault, e.healed
	e.calls[r.Method]++
	e.mu.Unlock()
	path := filepath.Join(e.dir, filepath.FromSlash(name))
	switch {
	case fault == answers500:
		http.Error(w, "it broke", http.StatusInternalServerError)
	case fault == answers503:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too busy", http.StatusServiceUnavailable)
	case fault == stalls:
		select {
		case <-healed:
		case <-r.Context().Done():
		}
		panic(http.ErrAbortHandler)
	case r.Method == http.MethodGet && fault == sendsHTML:
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<html><body>Welcome to our storage portal</body></html>\n")
	case r.Method == http.MethodGet && fault == cutsShort:
		sendHalf(w, r, path)
	case r.Method == http.MethodGet, r.Method == http.MethodHead:
		http.ServeFile(w, r, path)
	case r.Method == http.MethodPut:
		e.take(w, r, name, path, fault)
	case r.Method == http.MethodDelete:
		e.drop(w, name, path)
	case r.Method == "MKCOL":
		makeFolder(w, path)
	case r.Method == "PROPFIND":
		(&webdav.Handler{Prefix: "/vo", FileSystem: webdav.Dir(e.dir), LockSystem: webdav.NewMemLS()}).ServeHTTP(w, r)
	default:
		http.Error(w, r.Method, http.StatusMethodNotAllowed)
	}
}

// sendHalf promises a whole file and breaks off in its middle.
func sendHalf(w http.ResponseWriter, r *http.Request, path string) {
	content, err := os.ReadFile(path)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(content)))
	_, _ = w.Write(content[:len(content)/2])
	panic(http.ErrAbortHandler)
}

func (e *element) take(w http.ResponseWriter, r *http.Request, name, path string, fault storageFault) {
	if fault == isFull {
		http.Error(w, "no room", http.StatusInsufficientStorage)
		return
	}
	content, err := io.ReadAll(r.Body)
	if err != nil || r.ContentLength >= 0 && int64(len(content)) != r.ContentLength {
		http.Error(w, "broken off", http.StatusBadRequest)
		return
	}
	switch fault {
	case forgetsPuts:
		w.WriteHeader(http.StatusCreated)
		return
	case halvesPuts:
		content = content[:len(content)/2]
	}
	partial := filepath.Join(filepath.Dir(path), fmt.Sprintf(".%d", rand.Int64()))
	err = os.WriteFile(partial, content, 0o600)
	if err == nil {
		err = os.Rename(partial, path)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		http.Error(w, "no such folder", http.StatusConflict)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		e.mu.Lock()
		delete(e.deleted, name)
		delete(e.spoiled, name)
		e.mu.Unlock()
		w.WriteHeader(http.StatusCreated)
	}
}

func (e *element) drop(w http.ResponseWriter, name, path string) {
	e.mu.Lock()
	e.deleted[name] = time.Now()
	e.mu.Unlock()
	if err := os.Remove(path); errors.Is(err, fs.ErrNotExist) {
		w.WriteHeader(http.StatusNotFound)
	} else {
		w.WriteHeader(http.StatusNoContent)
	}
}

func makeFolder(w http.ResponseWriter, path string) {
	switch err := os.Mkdir(path, 0o755); {
	case errors.Is(err, fs.ErrExist):
		w.WriteHeader(http.StatusMethodNotAllowed)
	case errors.Is(err, fs.ErrNotExist):
		w.WriteHeader(http.StatusConflict)
	case err != nil:
		w.WriteHeader(http.StatusInternalServerError)
	default:
		w.WriteHeader(http.StatusCreated)
	}
}
