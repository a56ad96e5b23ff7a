package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/pilotage-grid/pilotage/identity"
)

// requestsOfPilots returns all calls of pilots until now, by method, as the queue's
// /metrics have them.
func (q *queueProcess) requestsOfPilots(ctx context.Context) (map[string]float64, error) {
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
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(reply.Body)
	if err != nil {
		return nil, fmt.Errorf("read the queue's metrics: %w", err)
	}
	byMethod := make(map[string]float64)
	for _, sample := range families["pilotage_queue_requests_total"].GetMetric() {
		for _, label := range sample.GetLabel() {
			if label.GetName() == "method" {
				byMethod[label.GetValue()] += sample.GetCounter().GetValue()
			}
		}
	}
	return byMethod, nil
}
