package taskqueue

import "github.com/pilotage-grid/pilotage/task"

// Vacant is a site without pilots, with some of the files that its caches held
// alone.
type Vacant struct {
	Site    task.Site
	Element string
	Files   []task.File
}

// lookPage bounds the files looked for at a site in one round.
const lookPage = 16

// Vacants lists the sites at whose storage elements files are to be looked for that
// the last pilots may have stored there without a word.
func (r *Rules) Vacants(t *Turn) (vacants []Vacant, err error) {
	defer catch(&err)
	sites := read(t.Sites().All())
	for i := range sites {
		site := &sites[i]
		if !site.Forget || t.Clock >= site.ForgetAt {
			continue
		}
		files := read(t.Files().OnlyAnnouncedAt(site.Name, "", lookPage))
		v := Vacant{Site: site.Name, Element: site.SE}
		for j := range files {
			v.Files = append(v.Files, files[j].File)
		}
		vacants = append(vacants, v)
	}
	return vacants, nil
}

// Looked takes what came of a look for files of a vacant site: where they are, or
// that they are not there. Where a pilot has come meanwhile it is the one to tell.
//
// Errors: ErrNotFound (the site).
func (r *Rules) Looked(t *Turn, name task.Site, found []task.Stored, missing []task.File) (err error) {
	q := r.open(t)
	defer q.close(&err)
	site := q.sites.need(name)
	if !site.Forget {
		return nil
	}
	site.ForgetAt = q.Clock.Add(q.config.Workflow.LookFor)
	q.sites.touch(name)
	q.outcomes.takeStored(site, found)
	gone := make([]task.LostFile, 0, len(found)+len(missing))
	for _, s := range found {
		gone = append(gone, task.LostFile{LFN: s.LFN, Digest: s.Digest})
	}
	for _, f := range missing {
		gone = append(gone, task.LostFile{LFN: f.LFN, Digest: f.Digest})
	}
	q.catalogue.lose(name, gone)

	return nil
}

// forgetCaches withdraws one page of what only the caches of a site held,
// after its last pilot has gone. It clears the site's mark when it is done.
func (c *catalogue) forgetCaches(site *SiteRecord) {
	page := c.config.Workflow.SweepPage
	files := read(c.Files().OnlyAnnouncedAt(site.Name, "", page))
	for _, f := range c.files.of(files) {
		c.withdraw(f, site.Name)
	}
	site.Forget = len(files) == page
	c.sites.touch(site.Name)
}
