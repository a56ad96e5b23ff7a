package page

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Report is what a finished workflow's report shows.
type Report struct {
	Name     string            `json:"name"`
	ID       string            `json:"id"`
	Facts    [][2]string       `json:"facts"`
	Steps    []json.RawMessage `json:"steps"`    // of protos, as the page gets them
	Failures []json.RawMessage `json:"failures"` // likewise
	Bars     []Bar             `json:"bars"`
	Hosts    map[string]string `json:"hosts"` // of pilots
	Reads    [4]uint64         `json:"reads"` // local, peer, storage element, remote
	Bytes    [4]uint64         `json:"bytes"`
	Files    []FileReads       `json:"files"` // read most
	Useful   float64           `json:"useful"`
	Wasted   map[string]Waste  `json:"wasted"` // by how the attempts ended
	Slowest  []ReportTask      `json:"slowest"`
	Failed   []ReportTask      `json:"failed"`
}

// Waste is work that counts for nothing.
type Waste struct {
	Attempts int     `json:"attempts"`
	Seconds  float64 `json:"seconds"`
}

// ReportTask is a task that a report names.
type ReportTask struct {
	ID       string  `json:"id"`
	Site     string  `json:"site"`
	Attempts int     `json:"attempts"`
	StageIn  float64 `json:"in"`
	Run      float64 `json:"run"`
	Reason   string  `json:"reason"`
}

// WriteReport writes a report as one HTML file that needs nothing from elsewhere: it
// draws with the page's own scripts and styles, and the browser runs no others.
func WriteReport(w io.Writer, r *Report) error {
	data, err := json.Marshal(r) // which escapes markup
	if err != nil {
		return fmt.Errorf("encode the report: %w", err)
	}
	style, err := asset("page.css")
	if err != nil {
		return err
	}
	script, err := asset("draw.js", "screens.js", "report.js")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src '%s'; script-src '%s'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Report of a workflow</title>
<style>%s</style>
</head>
<body class="in">
<main id="main"><noscript>This report needs JavaScript.</noscript></main>
<script type="application/json" id="data">%s</script>
<script>%s</script>
</body>
</html>
`, hashed(style), hashed(script), style, data, script)
	return err
}

// asset joins files of the page, which hold no end of a script or style.
func asset(names ...string) (string, error) {
	var text strings.Builder
	for _, name := range names {
		content, err := static.ReadFile("static/" + name)
		if err != nil {
			return "", err
		}
		text.Write(content)
	}
	return text.String(), nil
}

func hashed(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}
