package taskqueue

import (
	"path/filepath"
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
		{"https://se.example/A", "http://127.0.0.1:8080/x", false},
		{"file:///se/A", "http://[::1]/x", false},
		{"", "http://localhost/x", false},
		{"http://127.0.0.1:80/A", "http://127.0.0.1:8080/x", true},
		{"", "https://elsewhere.example/x", true},
		{"https://se.example/A", "https://elsewhere.example/x", true},
	} {
		site := SiteRecord{Name: "A", SiteSettings: SiteSettings{SE: c.se}}
		if why := site.misplaced(task.Replica{Site: "A", URL: c.url}); (why == "") != c.fits {
			t.Errorf("%s at a site with storage %q: misplaced says %q", c.url, c.se, why)
		}
	}
}

// TestNameAt: what pilots report counts only below the site's own storage
// element, whatever its protocol.
func TestNameAt(t *testing.T) {
	for _, c := range []struct{ se, url, name string }{
		{"file:///se/A", "file:///se/A/w/x", "w/x"},
		{"file:///se/A/", "file://localhost/se/A/x", "x"},
		{"file:///", "file:///x", "x"},
		{"https://se.example/A", "https://SE.example/A/w/x", "w/x"},
		{"https://se.example", "https://se.example/x", "x"},
		{"http://se.example:8080/A/", "http://se.example:8080/A/x", "x"},
		{"file:///se/A", "file:///se/A", ""},
		{"file:///se/A", "file:///se/A/", ""},
		{"file:///se/A", "file:///se/AB/x", ""},
		{"file:///se/A", "file:///etc/passwd", ""},
		{"file:///se/A", "file:///se/A/../B/x", ""},
		{"file:///se/A", "file:///se/A/%2e%2e/B/x", ""},
		{"file:///se/A", "file:///se/A/x%2f..%2f..%2fB", ""},
		{"file:///se/A", "file:///se/A//x", ""},
		{"file:///se/A", "file:///se/A/./x", ""},
		{"file:///se/A", "file:///se/A/x?y", ""},
		{"file:///se/A", "file:/se/A/x", "x"},
		{"file:///se/A", "https://se.example/se/A/x", ""},
		{"https://se.example/A", "file:///A/x", ""},
		{"https://se.example/A", "http://se.example/A/x", ""},
		{"https://se.example/A", "https://se.example:1/A/x", ""},
		{"https://se.example/A", "https://elsewhere.example/A/x", ""},
		{"https://se.example/A", "https://se.example/B/x", ""},
		{"https://se.example/A", "https://se.example@elsewhere/A/x", ""},
		{"https://se.example/A", "https://u@se.example/A/x", ""},
		{"https://se.example/A", "https://se.example/A/x#y", ""},
		{"", "file:///x", ""},
		{"", "", ""},
		{"file:///se/A", "", ""},
		{"file:///se/A", "%", ""},
	} {
		if name, ok := NameAt(c.se, c.url); name != c.name || ok != (c.name != "") {
			t.Errorf("NameAt(%q, %q) = %q, %v; want %q", c.se, c.url, name, ok, c.name)
		}
	}
}

// FuzzNameAt: a name that is believed leads nowhere but below its element.
func FuzzNameAt(f *testing.F) {
	for _, seed := range []string{"file:///se/A/x", "file:///se/A/../x", "file:///se/A/%2e%2e/x", "FILE://localhost/se/A/a/b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, copied string) {
		name, ok := NameAt("file:///se/A", copied)
		if !ok {
			return
		}
		if at, _ := folderOf(copied); at != "/se/A/"+name || !filepath.IsLocal(name) {
			t.Errorf("%q has name %q and leads to %q", copied, name, at)
		}
	})
}
