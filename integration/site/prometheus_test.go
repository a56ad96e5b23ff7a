//go:build site

package site

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// deployed is a file that operators take.
func deployed(t *testing.T, parts ...string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(append([]string{"..", "..", "deploy"}, parts...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// A real Prometheus scrapes a queue with the token of a read-only access,
// takes our rules, and knows every series of the board; promtool finds nothing wrong.
func TestPrometheusScrapesTheQueue(t *testing.T) {
	t.Parallel()
	need(t, "prometheus", "promtool")
	l, _, _ := newGrid(t)
	dir := l.path("prometheus")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pilotage.rules.yml", "pilotage.test.yml"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(deployed(t, "prometheus", name)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var access struct{ Token string }
	content, err := os.ReadFile(l.path("look.json"))
	if err == nil {
		err = json.Unmarshal(content, &access)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "pilotage.token"), []byte(access.Token), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	l.own(filepath.Join(dir, "pilotage.token"))
	l.own(dir)
	config := strings.NewReplacer("queue.example.org:7421", l.webAddress(), "ca.pem", l.path("queue", "ca", "ca.pem"),
		"rule_files:", "global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files:").Replace(deployed(t, "prometheus", "prometheus.yml"))
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, check := range [][]string{{"check", "config", "prometheus.yml"}, {"test", "rules", "pilotage.test.yml"}} {
		command := exec.Command("promtool", check...)
		command.Dir = dir
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("promtool %s: %v\n%s", strings.Join(check, " "), err, out)
		}
	}
	at := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	command := exec.Command("prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+at)
	l.asAccount(command)
	command.Dir = dir
	launch(t, "prometheus", filepath.Join(dir, "log"), command)

	ask := func(query string) (series int) {
		reply, err := http.Get("http://" + at + "/api/v1/query?query=" + url.QueryEscape(query))
		if err != nil {
			return 0
		}
		defer func() { _ = reply.Body.Close() }()
		if reply.StatusCode == http.StatusServiceUnavailable { // it is starting, and says so in words
			return 0
		}
		var answer struct {
			Status, Error string
			Data          struct{ Result []json.RawMessage }
		}
		if err := json.NewDecoder(reply.Body).Decode(&answer); err != nil || answer.Status != "success" {
			t.Fatalf("%s: %v, %s", query, err, answer.Error)
		}
		return len(answer.Data.Result)
	}
	l.until("Prometheus scrapes the queue", func() bool { return ask(`up{job="pilotage"} == 1 and on() count_over_time(up[1m]) > 3`) == 1 })
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(deployed(t, "grafana", "pilotage.json")), &board); err != nil || len(board.Panels) < 10 {
		t.Fatalf("the board has %d panels: %v", len(board.Panels), err)
	}
	for _, panel := range board.Panels {
		for _, target := range panel.Targets {
			if query := strings.ReplaceAll(target.Expr, "$site", ".*"); ask(query) == 0 {
				t.Errorf("panel %q has no data: %s", panel.Title, query)
			}
		}
	}
	for _, query := range []string{`ALERTS`, `pilotage_tasks{state="DONE"} == 13`, `sum(pilotage_attempts_total{outcome="failed",reason="payload failed"}) == 3`} {
		if n := ask(query); (n > 0) == (query == `ALERTS`) {
			t.Errorf("%s has %d series", query, n)
		}
	}

	scraped := exec.Command("curl", "--silent", "--fail", "--cacert", l.path("queue", "ca", "ca.pem"), "--header", "Authorization: Bearer "+access.Token, "https://"+l.webAddress()+"/metrics")
	text, err := scraped.Output()
	if err != nil {
		t.Fatal(err)
	}
	lint := exec.Command("promtool", "check", "metrics")
	lint.Stdin = strings.NewReader(string(text))
	if out, err := lint.CombinedOutput(); err != nil {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}
