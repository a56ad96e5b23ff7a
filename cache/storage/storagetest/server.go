package storagetest

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"
)

// Server is an http.Handler with as much of WebDAV (RFC 4918) as storage uses:
// GET with Range, HEAD, PUT, DELETE, MKCOL and PROPFIND with depth 1. As strict servers do, it answers
// 409 when the folder above a new file or folder is missing. A PUT that ends
// early leaves nothing. The zero value is not usable.
type Server struct {
	mu       sync.Mutex
	files    map[string][]byte
	folders  map[string]bool
	requests map[string]int
	fault    func(http.ResponseWriter, *http.Request) bool
}

// NewServer returns a server whose root folder exists and is empty.
func NewServer() *Server {
	return &Server{files: map[string][]byte{}, folders: map[string]bool{"/": true}, requests: map[string]int{}}
}

// SetFault lets a function answer requests first; it returns true for those
// that it answered. Nil removes it.
func (s *Server) SetFault(fault func(http.ResponseWriter, *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

// Requests returns how many requests came by method.
func (s *Server) Requests() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.requests)
}

// Files returns the paths and contents of all files.
func (s *Server) Files() map[string][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.files)
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests[r.Method]++
	fault := s.fault
	s.mu.Unlock()
	if fault != nil && fault(w, r) {
		return
	}
	place := path.Clean(r.URL.Path)
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		s.mu.Lock()
		data, found := s.files[place]
		s.mu.Unlock()
		if !found {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		http.ServeContent(w, r, "", time.Unix(1_700_000_000, 0), bytes.NewReader(data))
	case http.MethodPut:
		data, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client went away, nobody reads an answer
		}
		w.WriteHeader(s.put(place, data))
	case http.MethodDelete:
		s.mu.Lock()
		defer s.mu.Unlock()
		if _, found := s.files[place]; !found {
			http.NotFound(w, r)
			return
		}
		delete(s.files, place)
		w.WriteHeader(http.StatusNoContent)
	case "MKCOL":
		w.WriteHeader(s.makeFolder(place, strings.HasSuffix(r.URL.Path, "/")))
	case "PROPFIND":
		s.list(w, place, r.Header.Get("Depth"))
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

// list answers with a folder and its members, files before folders.
func (s *Server) list(w http.ResponseWriter, place, depth string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, isFile := s.files[place]
	switch {
	case depth != "1":
		w.WriteHeader(http.StatusForbidden)
		return
	case !isFile && !s.folders[place]:
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(http.StatusMultiStatus)
	_, _ = io.WriteString(w, `<?xml version="1.0"?><D:multistatus xmlns:D="DAV:">`)
	member := func(name, kind string) {
		href := (&url.URL{Path: name}).EscapedPath()
		_, _ = fmt.Fprintf(w, `<D:response><D:href>%s</D:href><D:propstat><D:prop><D:resourcetype>%s</D:resourcetype></D:prop>`+
			`<D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>`, href, kind)
	}
	for name := range s.files {
		if name == place || path.Dir(name) == place {
			member(name, "")
		}
	}
	for name := range s.folders {
		if name == place || name != "/" && path.Dir(name) == place {
			member(strings.TrimSuffix(name, "/")+"/", "<D:collection/>")
		}
	}
	_, _ = io.WriteString(w, "</D:multistatus>")
}

func (s *Server) put(place string, data []byte) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.folders[place] {
		return http.StatusMethodNotAllowed
	}
	if !s.folders[path.Dir(place)] {
		return http.StatusConflict
	}
	_, existed := s.files[place]
	s.files[place] = data
	if existed {
		return http.StatusNoContent
	}
	return http.StatusCreated
}

func (s *Server) makeFolder(place string, slash bool) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, isFile := s.files[place]
	switch {
	case !slash: // as nginx has it
		return http.StatusConflict
	case isFile || s.folders[place]:
		return http.StatusMethodNotAllowed
	case !s.folders[path.Dir(place)]:
		return http.StatusConflict
	}
	s.folders[place] = true
	return http.StatusCreated
}
