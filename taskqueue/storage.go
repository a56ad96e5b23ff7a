package taskqueue

import (
	"net/url"
	"path"
	"slices"
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

// discardLosers has deleted what attempts of an ended task may have stored that can
// win no more. Those whose pilots went without a word told nothing of it, so all that
// they were to make is looked for.
func (c *catalogue) discardLosers(s *TaskState) {
	if s.Number <= 1 || !s.State.Terminal() {
		return
	}
	spec := c.specs.one(s.ID)
	if spec == nil || len(spec.Outputs) == 0 {
		return
	}
	attempts := c.attemptsOf(s.ID)
	var garbage []task.Replica
	for _, a := range attempts {
		if a.State != AttemptLost {
			continue
		}
		site := c.sites.one(a.Outcome.Site)
		if site == nil {
			continue // it was removed, with what is there
		}
		for _, out := range spec.Outputs {
			if at := site.place(a.Outcome.Attempt, out.LFN); at != "" {
				garbage = append(garbage, task.Replica{Site: site.Name, URL: at})
			}
		}
	}
	saveAll(garbage, c.Files().AddGarbage)
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

// Garbage lists copies that are to be deleted, but for those of some sites, the
// oldest first, at most limit. Those that the catalogue names are apart: they must not be deleted, whatever
// put them on the list. What later runs have taken over never comes on it.
func (r *Rules) Garbage(t *Turn, limit int, except ...task.Site) (garbage, named []task.Replica, err error) {
	defer catch(&err)
	page := read(t.Files().Garbage(limit, append(slices.Clip(except), nowhere)...))
	if len(page) == 0 {
		return nil, nil, nil
	}
	sites := read(t.Sites().All())
	elements := make(map[task.Site]string, len(sites))
	for i := range sites {
		elements[sites[i].Name] = sites[i].SE
	}
	for _, replica := range page {
		name, _ := NameAt(elements[replica.Site], replica.URL)
		files := read(t.Files().Load(task.StoredFile(name)))
		own := slices.ContainsFunc(files, func(f FileRecord) bool { return f.ReplicaAt(replica.URL) >= 0 })
		if own || len(read(t.Files().Foreign(replica.URL))) > 0 {
			named = append(named, replica)
		} else {
			garbage = append(garbage, replica)
		}
	}
	return garbage, named, nil
}

// folderOf returns the clean path of a file:// URL.
func folderOf(rawURL string) (string, bool) {
	parsed, err := url.Parse(rawURL)
	if err != nil || parsed.Scheme != "file" {
		return "", false
	}
	return path.Clean(parsed.Path), true
}
