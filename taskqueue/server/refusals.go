package server

import (
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/status"

	"github.com/pilotage-grid/pilotage/task"
)

// refusalsLogged bounds who is remembered to have been named in the log, and
// refusalsForgotten is after what time each of them may be named again.
const (
	refusalsLogged    = 1024
	refusalsForgotten = 10 * time.Minute
)

// refusals counts what was refused for the sake of security, and names each reason
// and whoever gave it once in the log. It is safe for concurrent use.
type refusals struct {
	log     *slog.Logger
	counted *prometheus.CounterVec

	mutex  sync.Mutex
	logged map[string]struct{}
	since  time.Time
}

func newRefusals(log *slog.Logger) *refusals {
	return &refusals{log: log, logged: make(map[string]struct{}), counted: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "pilotage_refused_total",
		Help: "Calls, facts and connections that were refused for the sake of security, by reason; site is empty before an access is shown.",
	}, []string{"reason", "site"})}
}

// note counts one refusal of what somebody tried.
func (r *refusals) note(reason string, site task.Site, who string, why error) {
	r.counted.WithLabelValues(reason, string(site)).Inc()
	if r.first(reason+"\x00"+string(site)+"\x00"+who, time.Now()) {
		r.log.Warn("refused", "reason", reason, "site", site, "from", who, "why", status.Convert(why).Message())
	}
}

// first tells whether something was not seen lately.
func (r *refusals) first(key string, now time.Time) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if now.Sub(r.since) >= refusalsForgotten {
		clear(r.logged)
		r.since = now
	}
	if _, seen := r.logged[key]; seen || len(r.logged) >= refusalsLogged {
		return false
	}
	r.logged[key] = struct{}{}
	return true
}
