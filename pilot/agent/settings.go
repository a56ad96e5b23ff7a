package agent

import (
	"fmt"
	"sync/atomic"

	"google.golang.org/protobuf/proto"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
)

// siteSettings are the settings of the site that are in force. It is safe for
// concurrent use.
type siteSettings struct {
	now atomic.Pointer[task.SiteSettings]
}

func (s *siteSettings) get() task.SiteSettings {
	if now := s.now.Load(); now != nil {
		return *now
	}
	return task.SiteSettings{}
}

func (s *siteSettings) set(settings task.SiteSettings) { s.now.Store(&settings) }

// isolated tells whether this pilot exchanges no files with others.
func (s *siteSettings) isolated() bool { return s.get().Mode == task.ModeIsolated }

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
