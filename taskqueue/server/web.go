package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Limits of the HTTPS server, which everybody may ask who reaches it.
const (
	scrapesAtOnce = 4
	maxWebHeader  = 16 << 10
	maxWebStreams = 32 // of one connection
)

// webServer serves the live page and /metrics, which ask for an access that may read,
// /metrics only off loopback; and /healthz.
func (s *Server) webServer() (*http.Server, error) {
	certificate := s.access.certificate.get
	if web := s.config.Web; web.Certificate != "" || web.Key != "" {
		files := &certificateFiles{certificate: web.Certificate, key: web.Key}
		if _, err := files.get(time.Now()); err != nil {
			return nil, fmt.Errorf("HTTPS certificate: %w", err)
		}
		certificate = func() *tls.Certificate {
			current, err := files.get(time.Now())
			if err != nil {
				s.config.Log.Warn("the files of the HTTPS certificate cannot be read again; the old one serves", "error", err)
			}
			return current
		}
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(&metrics{server: s}, s.refusals.counted, s.shown.counts, s.shown.events.counts, s.turns.commits,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	routes := http.NewServeMux()
	routes.Handle("GET /metrics", s.forScrapers(promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, // process figures tell something even when the store is away
		ErrorLog:      slog.NewLogLogger(s.config.Log.Handler(), slog.LevelWarn),

		MaxRequestsInFlight: scrapesAtOnce, // each looks into the store, for whoever asks
	})))
	routes.HandleFunc("GET /healthz", s.serveHealth)
	routes.Handle("/", s.shown.page)
	streams, end := context.WithCancel(context.Background()) // of the live page
	web := &http.Server{
		Handler: routes, BaseContext: func(net.Listener) context.Context { return streams },
		TLSConfig: &tls.Config{
			MinVersion:     tls.VersionTLS13,
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate(), nil },
		},
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      time.Minute,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    maxWebHeader,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxWebStreams},
		ErrorLog:          slog.NewLogLogger(s.config.Log.Handler(), slog.LevelDebug),
	}
	web.RegisterOnShutdown(end)
	return web, nil
}

// forScrapers lets those in who may look at the page; on loopback everybody.
func (s *Server) forScrapers(metrics http.Handler) http.Handler {
	address, is := s.httpListener.Addr().(*net.TCPAddr)
	if is && address.IP.IsLoopback() {
		return metrics
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := s.access.byToken(r.Header.Get("Authorization"), time.Now())
		switch {
		case err != nil:
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "metrics ask for a bearer token of role read-only: "+err.Error(), http.StatusUnauthorized)
		case c.kind&readers == 0:
			http.Error(w, fmt.Sprintf("%s may not read metrics, which ask for a token of role read-only", c), http.StatusForbidden)
		default:
			metrics.ServeHTTP(w, r)
		}
	})
}

// certificateFiles is a certificate in files that somebody else renews.
type certificateFiles struct {
	certificate, key string

	mu      sync.Mutex
	looked  time.Time
	changed time.Time // the newer of the files
	current *tls.Certificate
}

// lookAgain is how often the files are looked at, at most.
const lookAgain = 10 * time.Second

// get returns the certificate of the files, or with an error the one before.
func (f *certificateFiles) get(now time.Time) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.current != nil && now.Sub(f.looked) < lookAgain {
		return f.current, nil
	}
	f.looked = now
	changed := time.Time{}
	for _, name := range []string{f.certificate, f.key} {
		about, err := os.Stat(name)
		if err != nil {
			return f.current, err
		}
		if about.ModTime().After(changed) {
			changed = about.ModTime()
		}
	}
	if f.current != nil && changed.Equal(f.changed) {
		return f.current, nil
	}
	read, err := tls.LoadX509KeyPair(f.certificate, f.key)
	if err != nil {
		return f.current, err
	}
	f.current, f.changed = &read, changed
	return f.current, nil
}

// serveHealth answers 200 while the store takes writes, else 503 with why not.
func (s *Server) serveHealth(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if why := s.ailing(); why != "" {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, why)
		return
	}
	fmt.Fprintln(w, "ok")
}
