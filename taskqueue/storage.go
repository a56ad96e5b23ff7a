package taskqueue

import (
	"net/url"
	"path"
	"strings"

	"github.com/pilotage-grid/pilotage/task"
)

// misplaced says why a copy cannot be where it is said to be; empty if it
// can. Pilots read the copies that the queue names, so a file:// one outside its
// site's storage folder would let whoever registers it read any file of the
// pilots' account, and one on the node's loopback what services there tell.
func (s *SiteRecord) misplaced(replica task.Replica) string {
	if at, err := url.Parse(replica.URL); err == nil && at.Scheme != "file" {
		element, err := url.Parse(s.SE)
		if task.OnThisMachine(at) && (err != nil || !task.OnThisMachine(element)) {
			return "it is on the machine of whoever reads it"
		}
	}
	copied, ok := folderOf(replica.URL)
	if !ok {
		return ""
	}
	if folder, ok := folderOf(s.SE); ok && strings.HasPrefix(copied, strings.TrimSuffix(folder, "/")+"/") {
		return ""
	}
	if s.SE == "" {
		return "the site has no storage element"
	}
	return "the site's storage element is " + s.SE
}

// NameAt returns the name of a copy below a storage element; false if its URL
// is not that of a place there, written without detours. Only what has such a
// name is believed when pilots report it, and deleted when it is of no use.
func NameAt(element, copied string) (name string, ok bool) {
	at, err := url.Parse(element)
	if err != nil || element == "" {
		return "", false
	}
	parsed, err := url.Parse(copied)
	if err != nil || parsed.Scheme != at.Scheme || parsed.User != nil || parsed.Opaque != "" ||
		parsed.RawQuery != "" || parsed.Fragment != "" || !sameHost(at, parsed) {
		return "", false
	}
	folder := strings.TrimSuffix(path.Clean("/"+at.Path), "/") + "/"
	name, ok = strings.CutPrefix(parsed.Path, folder)
	if !ok || path.Clean(name) != name || task.ValidateStorageName(name) != nil {
		return "", false
	}
	return name, true
}

func sameHost(x, y *url.URL) bool {
	host := func(u *url.URL) string {
		if u.Scheme == "file" && u.Host == "localhost" {
			return ""
		}
		return strings.ToLower(u.Host)
	}
	return host(x) == host(y)
}

// holds tells whether a URL that the site's pilots report is that of a copy on
// their own storage element.
func (s *SiteRecord) holds(copied string) bool {
	_, ok := NameAt(s.SE, copied)
	return ok
}

// wrote tells whether a URL is that of an attempt's own copy of a file. Nothing
// else may be deleted in the attempt's name.
func (s *SiteRecord) wrote(attempt task.AttemptID, file task.LFN, copied string) bool {
	name, ok := NameAt(s.SE, copied)
	return ok && name == task.StorageName(attempt, file)
}

// place is the URL of an attempt's own copy of an output of its task; empty for a
// site without storage.
func (s *SiteRecord) place(attempt task.AttemptID, output task.LFN) string {
	at, err := url.Parse(s.SE)
	if err != nil || s.SE == "" {
		return ""
	}
	return at.JoinPath(task.StorageName(attempt, output)).String()
}

// folderOf returns the clean path of a file:// URL.
func folderOf(rawURL string) (string, bool) {
	parsed, err := url.Parse(rawURL)
	if err != nil || parsed.Scheme != "file" {
		return "", false
	}
	return path.Clean(parsed.Path), true
}
