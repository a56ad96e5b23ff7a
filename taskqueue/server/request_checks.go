package server

import (
	"math"
	"strings"
	"time"
	"unicode"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// Limits on what pilots and people say of themselves, in bytes or entries.
const (
	maxKey       = 200
	maxText      = 1024
	maxURL       = 4096
	maxAddresses = 64
	maxFeatures  = 512
	maxSlots     = 100_000
	maxGroups    = 64
	maxReach     = 1000
)

// checkText refuses what would spoil a table or a terminal.
func checkText(field, text string, limit int) error {
	if len(text) > limit {
		return invalid("%s has %d bytes: at most %d are allowed", field, len(text), limit)
	}
	if strings.ContainsFunc(text, unicode.IsControl) {
		return invalid("%s %q has control characters", field, text)
	}
	return nil
}

func checkTexts(field string, texts []string, entries, limit int) error {
	if len(texts) > entries {
		return invalid("%d %s: at most %d are allowed", len(texts), field, entries)
	}
	for _, text := range texts {
		if err := checkText(field, text, limit); err != nil {
			return err
		}
	}
	return nil
}

// checkStorageURL checks the URL of a storage element or of a copy on one.
func checkStorageURL(field, text string) error {
	if err := checkText(field, text, maxURL); err != nil {
		return err
	}
	if _, err := task.ParseStorageURL(text); err != nil {
		return invalid("%s: %w", field, err)
	}
	return nil
}

// checkFiles checks the URLs of files that a client describes.
func checkFiles(files []task.File) error {
	for i := range files {
		for _, replica := range files[i].Replicas {
			if err := checkStorageURL("file "+string(files[i].LFN)+": URL", replica.URL); err != nil {
				return err
			}
		}
		// Where it is cached and who made it the queue knows by itself.
		files[i].Announced, files[i].Producer = nil, task.AttemptID{}
	}
	return nil
}

// checkAttempts refuses reports on attempts of no task.
func checkAttempts[R any](field string, reports []R, of func(R) task.ID) error {
	for _, report := range reports {
		if _, err := task.ParseID(string(of(report))); err != nil {
			return invalid("%s: %w", field, err)
		}
	}
	return nil
}

// checkSync refuses a Sync that no pilot of ours would send. Outcomes were
// checked when they were decoded.
func checkSync(in *task.Sync) error {
	for _, check := range []error{
		checkAttempts("starts", in.Starts, func(s task.Start) task.ID { return s.Attempt.Task }),
		checkAttempts("returns", in.Returns, func(r task.Returned) task.ID { return r.Task }),
		checkAttempts("confirmed", in.Confirmed, func(r task.Revoked) task.ID { return r.Task }),
		checkStored(in.Stored),
	} {
		if check != nil {
			return check
		}
	}
	for i := range in.Pauses {
		if err := checkText("pauses", in.Pauses[i].Why, maxText); err != nil {
			return err
		}
	}
	for i := range in.Nodes {
		if err := checkText("nodes", in.Nodes[i].Name+in.Nodes[i].Why, maxText); err != nil {
			return err
		}
	}
	c := in.Capacity
	if err := checkText("capacity", c.StoppedWhy, maxText); err != nil {
		return err
	}
	if min(c.Pilots, c.Slots, c.FreeSlots, c.Assigned, c.Running, c.Waiting, c.Stopped, c.StoppedSlots) < 0 ||
		max(c.Slots, c.StoppedSlots) > maxSlots*max(1, c.Pilots) {
		return invalid("capacity %+v is impossible", c)
	}
	return nil
}

// maxHolding bounds the tasks that one pilot has in hand: one for each slot,
// and the prefill.
const maxHolding = 2_000_000

// checkPull refuses a Pull that no pilot of ours would send.
func checkPull(in *task.Pull) error {
	if err := checkSync(&in.Sync); err != nil {
		return err
	}
	if err := checkAttempts("holding", in.Holding, func(h task.Holding) task.ID { return h.Task }); err != nil {
		return err
	}
	for _, check := range []error{
		checkText("arch", in.Self.Arch, maxText), checkText("os", in.Self.OS, maxText),
	} {
		if check != nil {
			return check
		}
	}
	p, c := in.Places, &in.Cache
	switch {
	case math.IsNaN(in.Self.Load) || math.IsNaN(in.Self.CoreSpeed):
		return invalid("load or core speed is no number")
	case p.FreeSlots < 0 || p.FreeSlots > maxSlots || p.Prefill < 0 || p.Prefill > maxSlots*maxSlots:
		return invalid("places %+v are impossible", p)
	case len(in.Holding) > maxHolding:
		return invalid("%d tasks in hand: at most %d are allowed", len(in.Holding), maxHolding)
	case len(c.Added) > task.MaxPrints || len(c.Removed) > task.MaxPrints:
		return invalid("a cache summary names %d and %d files: at most %d are allowed", len(c.Added), len(c.Removed), task.MaxPrints)
	case c.Base > c.Version:
		return invalid("a cache summary of version %d follows version %d", c.Version, c.Base)
	}
	return nil
}

func checkStored(stored []task.Stored) error {
	if err := checkAttempts("stored", stored, func(s task.Stored) task.ID { return s.Attempt.Task }); err != nil {
		return err
	}
	for i := range stored {
		if stored[i].URL == "" {
			continue // the rules pass it over
		}
		if err := checkStorageURL("stored: URL", stored[i].URL); err != nil {
			return err
		}
	}
	return nil
}

// checkRegistration refuses pilots that describe themselves impossibly.
func checkRegistration(in *pb.RegisterRequest, now time.Time) error {
	for _, check := range []error{
		checkTexts("addresses", in.GetAddresses(), maxAddresses, maxText),
		checkTexts("features", in.GetFeatures(), maxFeatures, maxText),
		checkText("data_url", in.GetDataUrl(), maxURL),
		checkText("host", in.GetHost(), maxText),
		checkTexts("walls", in.GetWalls(), maxFeatures, maxText),
		checkText("sandbox", in.GetSandbox(), maxText),
		checkText("version", in.GetVersion(), maxText),
		checkText("batch_job", in.GetBatchJob(), maxText),
	} {
		if check != nil {
			return check
		}
	}
	if err := taskpb.FromResources(in.GetResources()).Validate(); err != nil {
		return invalid("resources: %v", err)
	}
	if in.GetSlots() < 1 || in.GetSlots() > maxSlots {
		return invalid("%d slots: give 1 to %d", in.GetSlots(), maxSlots)
	}
	if ends := in.GetEnds(); ends != nil {
		switch {
		case !ends.IsValid():
			return invalid("ends is not a time")
		case !ends.AsTime().After(now):
			return invalid("the pilot's declared end %s has passed: check its lifetime and its host's clock (here it is %s)",
				ends.AsTime().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
		}
	}
	return nil
}

// checkSite reads the settings that AddSite takes.
func checkSite(in *pb.SiteSettings, mode string) (taskqueue.SiteRecord, error) {
	site := taskqueue.SiteRecord{Name: task.Site(in.GetName()), SiteSettings: taskqueue.SiteSettings{
		SE: in.GetStorageUrl(), RemoteRead: in.GetRemoteRead(), Mode: taskqueue.Mode(mode),
		Solver: in.GetSolver(), Rank: in.GetRank(), Replicate: in.GetReplicate(), MinConfinement: task.Confinement(in.GetMinConfinement()),
		SEFiles: taskqueue.SEFiles{Token: in.GetSeTokenFile(), Certificate: in.GetSeClientCert(), Authorities: in.GetSeCa()},
	}}
	if strings.Trim(site.Replicate, "; \t\n") == "" {
		site.Replicate = "" // separators alone name no policy
	}
	period, err := duration("round period", in.GetRoundPeriod())
	if err != nil {
		return site, err
	}
	site.RoundEvery = period
	if in.GetPrefill() < 0 {
		return site, invalid("prefill %d: give how many tasks a slot gets early, 0 for none", in.GetPrefill())
	}
	if in != nil && in.Prefill != nil {
		if site.Prefill = int(in.GetPrefill()); site.Prefill == 0 {
			site.Prefill = taskqueue.NoPrefill
		}
	}
	if in.GetLocalityWait() != nil {
		if site.LocalityWait, err = duration("locality wait", in.GetLocalityWait()); err != nil {
			return site, err
		}
		if site.LocalityWait == 0 {
			site.LocalityWait = taskqueue.NoLocalityWait
		}
	}
	if in.GetMode() != pb.SiteMode_SITE_MODE_UNSPECIFIED && mode == "" {
		return site, invalid("mode %d is not known", in.GetMode())
	}
	if site.SE != "" {
		if err := checkStorageURL("storage element", site.SE); err != nil {
			return site, err
		}
	}
	if n := len(in.GetReach()); n > maxReach {
		return site, invalid("%d sites in reach: at most %d are allowed; none means all", n, maxReach)
	}
	for _, name := range in.GetReach() {
		reached, err := task.ParseSite(name)
		if err != nil {
			return site, invalid("reach: %w", err)
		}
		site.Reach = append(site.Reach, reached)
	}
	return site, nil
}

// duration reads a length of time that came from outside.
func duration(field string, in *durationpb.Duration) (time.Duration, error) {
	if in == nil {
		return 0, nil
	}
	if err := in.CheckValid(); err != nil {
		return 0, invalid("%s: %w", field, err)
	}
	return in.AsDuration(), nil
}
