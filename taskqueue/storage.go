package taskqueue

import (
	"net/url"
	"path"
	"strings"

	"github.com/pilotage-grid/pilotage/task"
)

// misplaced says why a copy cannot be where it is said to be; empty if it
// can. Pilots read the file:// copies that the queue names, so one outside its
// site's storage folder would let whoever registers it read any file of the
// pilots' account.
func (s *SiteRecord) misplaced(replica task.Replica) string {
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

// folderOf returns the clean path of a file:// URL.
func folderOf(rawURL string) (string, bool) {
	parsed, err := url.Parse(rawURL)
	if err != nil || parsed.Scheme != "file" {
		return "", false
	}
	return path.Clean(parsed.Path), true
}
