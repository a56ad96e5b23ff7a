package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/internal/durable"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// revokedFile, in the queue's folder, names what is revoked and banned. The database
// knows it as well, but for one that was put back from a backup: then the file counts.
const revokedFile = "revoked.json"

// RemembersRevocations tells whether a queue's folder knows what was revoked and banned
// apart from its database.
func RemembersRevocations(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, revokedFile))
	return err == nil
}

// revocations are what the file has.
type revocations struct {
	Accesses []string        `json:"accesses"` // their ids, while they would be valid
	Pilots   []task.PeerID   `json:"pilots"`   // while their membership would be
	Bans     []taskqueue.Ban `json:"bans"`
}

// revocationsIn are what the database has.
func (a *access) revocationsIn(t *taskqueue.Turn) (r revocations) {
	grants := taskqueue.Read(t.Grants().All())
	for i := range grants {
		if grants[i].Revoked && time.Now().Before(grants[i].Expires) {
			r.Accesses = append(r.Accesses, grants[i].ID)
		}
	}
	sites := taskqueue.Read(t.Sites().All())
	for i := range sites {
		r.Pilots = append(r.Pilots, sites[i].Denied...)
	}
	r.Bans = taskqueue.Read(a.turns.rules.Bans(t))
	slices.Sort(r.Accesses)
	slices.Sort(r.Pilots)
	return r
}

// keep writes the file, if it says something else. Without it a revocation counts as
// long as the database is not put back.
func (a *access) keep(r revocations) {
	content, err := json.MarshalIndent(r, "", "  ")
	if a.config.Store != StoreSQLite || bytes.Equal(content, a.revoked) {
		return
	}
	if err == nil {
		err = durable.WriteFile(filepath.Join(a.config.DataDir, revokedFile), content, 0o600)
	}
	if err != nil {
		a.config.Log.Warn("what is revoked cannot be written beside the database", "error", err)
		return
	}
	a.revoked = content
}

// recall revokes and bans again what the file has and the database has not.
func (a *access) recall(ctx context.Context) error {
	path := filepath.Join(a.config.DataDir, revokedFile)
	content, err := os.ReadFile(path)
	if a.config.Store != StoreSQLite || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var kept revocations
	if err == nil {
		err = json.Unmarshal(content, &kept)
	}
	if err != nil {
		return fmt.Errorf("what was revoked and banned (delete the file to forget what the database does not know): %s: %w", path, err)
	}
	a.revoked = content
	known, err := seen(ctx, a.turns, func(t *taskqueue.Turn) (revocations, error) { return a.revocationsIn(t), nil })
	if err != nil {
		return err
	}
	rules, again := a.turns.rules, 0
	carryOut := func(rule func(*taskqueue.Turn) error) {
		switch failed := a.turns.update(ctx, rule); {
		case failed == nil:
			again++
		case !errors.Is(failed, taskqueue.ErrNotFound): // else it came after the backup, and opens nothing
			err = errors.Join(err, failed)
		}
	}
	for _, id := range kept.Accesses {
		if !slices.Contains(known.Accesses, id) {
			carryOut(func(t *taskqueue.Turn) error { _, err := rules.RevokeGrant(t, id, false); return err })
		}
	}
	for _, peer := range kept.Pilots {
		if !slices.Contains(known.Pilots, peer) {
			carryOut(func(t *taskqueue.Turn) error { return rules.Deny(t, string(peer)) })
		}
	}
	for _, ban := range kept.Bans {
		if !slices.ContainsFunc(known.Bans, ban.Same) {
			carryOut(func(t *taskqueue.Turn) error { _, err := rules.Ban(t, ban); return err })
		}
	}
	if again > 0 {
		a.config.Log.Warn("the database lacked what was revoked and banned since, as a backup does: it counts again", "revocations and bans", again)
	}
	return err
}
