package main

import (
	"context"
	"net"
	"net/http"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/pilotage-grid/pilotage/pilot/factory"
	"github.com/pilotage-grid/pilotage/task"
)

// factoryMetrics are the figures of a factory's newest status.
func factoryMetrics(site task.Site) (*prometheus.Registry, func(factory.Status)) {
	registry, newest := prometheus.NewRegistry(), &atomic.Pointer[factory.Status]{}
	newest.Store(&factory.Status{})
	gauge := func(name, help string, labels prometheus.Labels, of func(s *factory.Status) float64) {
		options := prometheus.GaugeOpts{Name: "pilotage_" + name, Help: help, ConstLabels: labels}
		registry.MustRegister(prometheus.NewGaugeFunc(options, func() float64 { return of(newest.Load()) }))
	}
	for _, state := range []factory.State{factory.Planned, factory.Pending, factory.Running} {
		labels := prometheus.Labels{"site": string(site), "state": string(state)}
		gauge("factory_jobs", "Pilot jobs by state.", labels, func(s *factory.Status) (n float64) {
			for i := range s.Jobs {
				if s.Jobs[i].State == state {
					n++
				}
			}
			return n
		})
	}
	gauge("factory_waiting_tasks", "Tasks that wait for pilots of the site.", nil, func(s *factory.Status) float64 { return float64(s.Tasks) })
	gauge("factory_unmet_tasks", "Of them, those that get no job now.", nil, func(s *factory.Status) (n float64) {
		for _, u := range s.Unmet {
			n += float64(u.Tasks)
		}
		return n
	})
	gauge("factory_excluded_nodes", "Nodes that jobs are kept from.", nil, func(s *factory.Status) float64 { return float64(len(s.Excluded)) })
	gauge("factory_paused", "1 while failures hold submissions back.", nil, func(s *factory.Status) float64 { return float64(min(1, len(s.Paused))) })
	gauge("factory_listing_age_seconds", "Age of the newest answer of the batch system.", nil, func(s *factory.Status) float64 { return s.Listing.Seconds() })
	gauge("build_info", "Always 1.", prometheus.Labels{"version": version, "go": runtime.Version()}, func(*factory.Status) float64 { return 1 })
	return registry, func(s factory.Status) { newest.Store(&s) }
}

// serveMetrics answers /metrics until stop.
func serveMetrics(ctx context.Context, registry *prometheus.Registry, address string) (stop func(), err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	return func() {
		_ = server.Close()
		<-done
	}, nil
}
