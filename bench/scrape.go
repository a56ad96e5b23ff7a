package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pilotage-grid/pilotage/identity"
)

// metrics are the samples of one scrape by name with labels, as printed.
type metrics map[string]float64

// scrape reads the queue's /metrics.
func (q *queueProcess) scrape(ctx context.Context) (metrics, error) {
	text, err := os.ReadFile(filepath.Join(q.data(), "run.json"))
	if err != nil {
		return nil, fmt.Errorf("find the queue's metrics: %w", err)
	}
	var run struct {
		HTTP string `json:"http"`
	}
	if err := json.Unmarshal(text, &run); err != nil {
		return nil, fmt.Errorf("find the queue's metrics: %w", err)
	}
	access, err := q.access("admin")
	if err != nil {
		return nil, err
	}
	secured, err := identity.QueueClientTLS([]byte(access.CAPEM), "", nil)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{TLSClientConfig: secured}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+run.HTTP+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	reply, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return nil, fmt.Errorf("read the queue's metrics: %w", err)
	}
	defer func() { _ = reply.Body.Close() }()
	found := metrics{}
	lines := bufio.NewScanner(reply.Body)
	for lines.Scan() {
		if name, value, cut := strings.Cut(lines.Text(), "} "); cut {
			if number, err := strconv.ParseFloat(value, 64); err == nil {
				found[name+"}"] = number
			}
		} else if name, value, cut := strings.Cut(lines.Text(), " "); cut && !strings.HasPrefix(name, "#") {
			if number, err := strconv.ParseFloat(value, 64); err == nil {
				found[name] = number
			}
		}
	}
	return found, lines.Err()
}

// requests returns the calls of pilots and masters by method.
func (m metrics) requests() map[string]float64 {
	byMethod := map[string]float64{}
	for name, value := range m {
		if rest, is := strings.CutPrefix(name, `pilotage_queue_requests_total{method="`); is {
			byMethod[strings.TrimSuffix(rest, `"}`)] += value
		}
	}
	return byMethod
}
