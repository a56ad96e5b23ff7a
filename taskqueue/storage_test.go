package taskqueue

import (
	"testing"

	"github.com/pilotage-grid/pilotage/task"
)

// TestMisplacedCopies: a pilot is never led to a file outside a site's storage
// folder.
func TestMisplacedCopies(t *testing.T) {
	for _, c := range []struct {
		se, url string
		fits    bool
	}{
		{"file:///se/A", "file:///se/A/x", true},
		{"file:///se/A/", "file:///se/A/deep/x", true},
		{"file://localhost/se/A", "file:///se/A/x", true},
		{"file:///", "file:///anything", true},
		{"file:///se/A", "file:///se/A", false},
		{"file:///se/A", "file:///se/AB/x", false},
		{"file:///se/A", "file:///se/A/../B/x", false},
		{"file:///se/A", "file:///se/A/%2e%2e/B/x", false},
		{"file:///se/A", "file:///etc/passwd", false},
		{"file:///se/A", "FILE:///etc/passwd", false},
		{"https://se.example/A", "file:///etc/passwd", false},
		{"", "file:///etc/passwd", false},
		{"", "https://elsewhere.example/x", true},
		{"https://se.example/A", "https://elsewhere.example/x", true},
	} {
		site := SiteRecord{Name: "A", SE: c.se}
		if why := site.misplaced(task.Replica{Site: "A", URL: c.url}); (why == "") != c.fits {
			t.Errorf("%s at a site with storage %q: misplaced says %q", c.url, c.se, why)
		}
	}
}
