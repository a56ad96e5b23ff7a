package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
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

// webServer serves the live page, which asks for an access, and /metrics and
// /healthz without one: it listens on loopback unless the operator says otherwise.
func (s *Server) webServer() *http.Server {
	registry := prometheus.NewRegistry()
	registry.MustRegister(&siteMetrics{server: s}, s.refusals.counted, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	routes := http.NewServeMux()
	routes.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, // process figures tell something even when the store is away
		ErrorLog:      slog.NewLogLogger(s.config.Log.Handler(), slog.LevelWarn),

		MaxRequestsInFlight: scrapesAtOnce, // each looks into the store, for whoever asks
	}))
	routes.HandleFunc("GET /healthz", s.serveHealth)
	routes.Handle("/", s.page)
	streams, end := context.WithCancel(context.Background()) // of the live page
	web := &http.Server{
		Handler: routes, BaseContext: func(net.Listener) context.Context { return streams },
		TLSConfig: &tls.Config{
			MinVersion:     tls.VersionTLS13,
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.access.certificate.get(), nil },
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
	return web
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
