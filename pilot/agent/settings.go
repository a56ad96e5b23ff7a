package agent

import (
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pilotage-grid/pilotage/pilot/master"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
)

// siteSettings are the settings of the site, as they were last heard. It is safe
// for concurrent use.
type siteSettings struct {
	mu   sync.Mutex
	now  task.SiteSettings
	came time.Time
	word master.ModeWord
}

func (s *siteSettings) get() task.SiteSettings {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// isolated tells whether this pilot exchanges no files with others.
func (s *siteSettings) isolated() bool { return s.get().Mode == task.ModeIsolated }

// take takes settings that were asked for at some time, and returns those before.
// Answers can overtake one another: one that was asked for before those in force
// came may be older than they are, and is not taken; the next one tells.
func (s *siteSettings) take(asked time.Time, settings task.SiteSettings) (before task.SiteSettings, taken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before = s.now
	if settings.Site == "" || before != settings && asked.Before(s.came) {
		return before, false
	}
	if before != settings {
		s.now, s.came = settings, time.Now()
	}
	return before, true
}

func (s *siteSettings) saidByQueue() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.word.QueueSaid(time.Now())
}

// saidByMaster tells how long a master's word is not taken.
func (s *siteSettings) saidByMaster(settings task.SiteSettings) (wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.word.MasterSaid(time.Now(), s.now, settings)
}

// stillSaid tells whether no master has said anything else since.
func (s *siteSettings) stillSaid(settings task.SiteSettings) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.word.StillSaid(settings)
}

func encodeSettings(settings task.SiteSettings) ([]byte, error) {
	data, err := proto.Marshal(taskpb.Settings(settings))
	if err != nil {
		return nil, fmt.Errorf("encode the settings of site %s: %w", settings.Site, err)
	}
	return data, nil
}

// decodeSettings reads the settings of a site; those of another are an error.
func decodeSettings(site task.Site, data []byte) (task.SiteSettings, error) {
	var in pb.SiteSettings
	if err := proto.Unmarshal(data, &in); err != nil {
		return task.SiteSettings{}, fmt.Errorf("decode the settings of site %s: %w", site, err)
	}
	settings := taskpb.FromSettings(&in)
	if settings.Site != site || settings.Mode == "" {
		return task.SiteSettings{}, fmt.Errorf("settings of site %q in mode %q: those of site %s were to come", settings.Site, settings.Mode, site)
	}
	return settings, nil
}
