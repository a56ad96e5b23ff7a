package peer

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/cache/disk"
	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/task"
)

// serve answers one request. The response writer is never wrapped: io.Copy
// would no longer find its ReadFrom.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.allow(w, s.config.AnswerTime)
	member, ok := s.member(r)
	if !ok {
		w.Header().Set("Connection", "close")
		http.Error(w, "the membership has ended", http.StatusForbidden)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "files are read only", http.StatusMethodNotAllowed)
		return
	}
	key, manifest, err := parseTarget(r.URL.EscapedPath())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if manifest {
		s.serveManifest(w, key)
		return
	}
	s.serveFile(w, r, key, member.Peer)
}

// allow bounds how long the answer may take to be taken. It is set anew for
// each request, as kept connections keep the old bound.
func (s *Server) allow(w http.ResponseWriter, span time.Duration) {
	if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(span)); err != nil {
		s.config.Log.Debug("cannot bound the time of an answer", "error", err)
	}
}

// paced is a file on its way: each part of it is to be taken in its time.
type paced struct {
	*os.File
	server *Server
	to     http.ResponseWriter
	began  time.Time
	sum    task.Bytes
}

// Read satisfies io.Reader.
func (p *paced) Read(part []byte) (int, error) {
	n, err := p.File.Read(part)
	p.sum += task.Bytes(n)
	taken := time.Duration(float64(p.sum) / float64(p.server.config.MinRate) * float64(time.Second))
	p.server.allow(p.to, time.Until(p.began.Add(p.server.config.AnswerTime+taken)))
	return n, err
}

// member looks again at who is at the other end: connections outlive the
// handshake that judged them.
func (s *Server) member(r *http.Request) (identity.Member, bool) {
	if r.TLS == nil {
		return identity.Member{}, false
	}
	member, ok := identity.MemberOfConnection(*r.TLS)
	if !ok || s.config.Verifier.IsDenied(member.Peer) || s.config.Clock().After(member.NotAfter) {
		return identity.Member{}, false
	}
	return member, true
}

func (s *Server) serveManifest(w http.ResponseWriter, key task.FileKey) {
	entry, found := s.config.Cache.Lookup(key)
	if !found {
		http.Error(w, "not in this pilot's cache", http.StatusNotFound)
		return
	}
	data, err := encodeManifest(entry)
	if err != nil {
		s.config.Log.Error("cannot encode a manifest", "file", key, "error", err)
		http.Error(w, "cannot encode the manifest", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(data) // the client notices what is missing
}

func (s *Server) serveFile(w http.ResponseWriter, r *http.Request, key task.FileKey, to task.PeerID) {
	pinned, err := s.config.Cache.Pin(key)
	if err != nil {
		if corrupt := (*disk.CorruptError)(nil); errors.As(err, &corrupt) {
			s.config.Log.Warn("a cached file is damaged and is no longer served", "file", key, "error", err)
		}
		http.Error(w, "not in this pilot's cache", http.StatusNotFound)
		return
	}
	defer pinned.Release()
	if !s.enter(to) {
		s.sendAway(w, pinned.Key, to)
		return
	}
	defer s.leave(to)
	file, err := pinned.Open()
	if err != nil {
		s.config.Log.Warn("a cached file cannot be served", "file", key, "error", err)
		http.Error(w, "not in this pilot's cache", http.StatusNotFound)
		return
	}
	defer file.Close()
	header := w.Header()
	header.Set("Content-Type", "application/octet-stream")
	header.Set("ETag", `"`+pinned.Digest.String()+`"`)
	if len(pinned.Manifest.Chunks) <= 1 {
		if data, err := encodeManifest(pinned.Entry); err == nil {
			header.Set(headerManifest, string(data))
		}
	}
	http.ServeContent(w, r, "", time.Time{}, &paced{File: file, server: s, to: w, began: time.Now()})
	holder := cache.Holder{Peer: to, DataURL: r.Header.Get(headerDataURL)}
	if r.Context().Err() == nil && toTheEnd(r.Header.Get("Range"), pinned.Size) && CheckHolder(holder) == nil {
		s.served.add(pinned.Key, holder)
	}
}

// sendAway answers 429 with those who got the file here, as they can serve it
// now.
func (s *Server) sendAway(w http.ResponseWriter, key task.FileKey, from task.PeerID) {
	text := busyText{RetryAfterMillis: s.config.RetryAfter.Milliseconds(), Holders: []holderText{}}
	for _, h := range s.served.of(key) {
		if h.Peer != from {
			text.Holders = append(text.Holders, holderText{Peer: h.Peer, URL: h.DataURL})
		}
	}
	data, err := json.Marshal(text)
	if err != nil {
		s.config.Log.Error("cannot encode an answer", "error", err)
	}
	header := w.Header()
	header.Set("Content-Type", "application/json")
	// Whole seconds (RFC 9110 section 10.2.3); our clients read the body.
	header.Set("Retry-After", strconv.Itoa(int((s.config.RetryAfter+time.Second-1)/time.Second)))
	w.WriteHeader(http.StatusTooManyRequests)
	_, _ = w.Write(data)
}

// toTheEnd tells whether a Range header reaches the end of a file: then the
// client most likely has the whole of it.
func toTheEnd(header string, size task.Bytes) bool {
	if header == "" {
		return true
	}
	_, last, found := strings.Cut(header, "-")
	return found && (last == "" || last == strconv.FormatInt(int64(size-1), 10))
}
