package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/sqlite"
)

// A rotation goes through the store: the next authority waits beside the one that
// signs, and the old one's certificate stays for a while. An authority signs no other
// authority, so who is to trust the next one has to be told of it beforehand.
const (
	metaNextAuthority    = "ca.next.pem"
	metaNextAuthorityKey = "ca.next.key"
	metaOldAuthority     = "ca.old.pem"
	metaRotated          = "ca.rotated" // when the last step was taken
)

// RotationStep is a step of the change to a new authority.
type RotationStep int

// The steps, in their order.
const (
	AuthorityPublished RotationStep = iota + 1 // the new one is told to all
	AuthorityChanged                           // the new one signs
	AuthorityDropped                           // the old one counts no more
)

// ErrOldPilotsLive refuses a step that would cut off pilots.
var ErrOldPilotsLive = errors.New("registered before the last step")

// authorities are what the store keeps of them.
type authorities struct {
	certificate, key []byte // of the one that signs
	next, nextKey    []byte // of the one that is to sign next, if any
	old              []byte // the certificate of the one that has signed before, if it still counts
	rotated          []byte
}

func (a *authorities) values() map[string]*[]byte {
	return map[string]*[]byte{
		metaAuthority: &a.certificate, metaAuthorityKey: &a.key, metaNextAuthority: &a.next, metaNextAuthorityKey: &a.nextKey,
		metaOldAuthority: &a.old, metaRotated: &a.rotated,
	}
}

func readAuthorities(meta taskqueue.MetaTable) (a authorities, err error) {
	for name, value := range a.values() {
		if *value, err = meta.Get(name); err != nil {
			return a, err
		}
	}
	return a, nil
}

// trusted is the PEM of all that count.
func (a *authorities) trusted() string {
	return string(slices.Concat(a.certificate, a.next, a.old))
}

// RotateAuthority takes the next step to a new authority, in the folder of a queue that
// does not run. ErrOldPilotsLive refuses to cut off pilots, unless forced.
func RotateAuthority(ctx context.Context, folder string, force bool) (step RotationStep, err error) {
	if _, err := os.Stat(filepath.Join(folder, sqlite.FileName)); err != nil {
		return 0, err
	}
	store, err := sqlite.Open(folder)
	if err != nil {
		return 0, err
	}
	err = store.Update(ctx, func(tx taskqueue.Tx) error {
		kept, err := readAuthorities(tx.Meta())
		if err != nil {
			return err
		}
		if len(kept.certificate) == 0 {
			return fmt.Errorf("%s holds no VO: start the queue first", folder)
		}
		if len(kept.rotated) > 0 && !force {
			if err := refuseOldPilots(tx, string(kept.rotated)); err != nil {
				return err
			}
		}
		if step, err = kept.rotate(time.Now()); err != nil {
			return err
		}
		for name, value := range kept.values() {
			if err := tx.Meta().Set(name, *value); err != nil {
				return err
			}
		}
		return taskqueue.NewRules(taskqueue.DefaultConfig()).Note(&taskqueue.Turn{Tx: tx, Wall: time.Now()}, taskqueue.AuditEntry{
			Kind: taskqueue.AuditAuthority, Person: fmt.Sprintf("account %d of the queue's host", os.Geteuid()),
			Subject: fmt.Sprintf("step %d of %d", step, AuthorityDropped),
		})
	})
	if err = errors.Join(err, store.Close()); err != nil {
		return 0, fmt.Errorf("rotate the authority: %w", err)
	}
	return step, nil
}

// rotate takes the next step.
func (a *authorities) rotate(now time.Time) (RotationStep, error) {
	a.rotated = now.UTC().AppendFormat(nil, time.RFC3339Nano)
	switch {
	case len(a.old) > 0:
		a.old, a.rotated = nil, nil
		return AuthorityDropped, nil
	case len(a.next) > 0:
		a.old, a.certificate, a.key = a.certificate, a.next, a.nextKey
		a.next, a.nextKey = nil, nil
		return AuthorityChanged, nil
	}
	made, err := identity.NewAuthority(now)
	if err != nil {
		return 0, err
	}
	a.next, a.nextKey = made.PEM()
	return AuthorityPublished, nil
}

// refuseOldPilots tells of pilots that registered before the last step. Those of a site
// that fell silent may come back.
func refuseOldPilots(tx taskqueue.Tx, rotated string) error {
	last, err := time.Parse(time.RFC3339Nano, rotated)
	if err != nil {
		return fmt.Errorf("the time of the last step in the store is damaged: %w", err)
	}
	sites, err := tx.Sites().All()
	if err != nil {
		return err
	}
	pilots, err := tx.Pilots().OfSite("", taskqueue.PilotAlive, taskqueue.PilotDraining)
	if err != nil {
		return err
	}
	for i := range sites {
		silenced, err := tx.Pilots().Load(sites[i].Silenced...)
		if err != nil {
			return err
		}
		pilots = append(pilots, silenced...)
	}
	pilots = slices.DeleteFunc(pilots, func(p taskqueue.PilotRecord) bool { return p.Registered.After(last) })
	if len(pilots) > 0 {
		return fmt.Errorf("%s %w, one is %s at %s", task.Counted(len(pilots), "live pilot"), ErrOldPilotsLive, pilots[0].ID, pilots[0].Site)
	}
	return nil
}
