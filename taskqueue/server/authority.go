package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/internal/durable"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// Where the authority is in the store and, without its key, in the folder.
const (
	metaAuthority    = "ca.pem"
	metaAuthorityKey = "ca.key"
	authorityFile    = "ca/ca.pem"
)

// loadAuthority reads the VO's authority from the store, or makes it at the
// first start.
func (a *access) loadAuthority(ctx context.Context) error {
	kept, err := seen(ctx, a.turns, func(t *taskqueue.Turn) (authorities, error) { return readAuthorities(t.Meta()) })
	if err != nil {
		return fmt.Errorf("load the authority: %w", err)
	}
	if len(kept.certificate) > 0 {
		a.authority, err = identity.LoadAuthority(kept.certificate, kept.key)
	} else if err = a.mayFound("holds no VO"); err == nil {
		a.authority, err = a.makeAuthority(ctx)
	}
	if err != nil {
		return err
	}
	kept.certificate, _ = a.authority.PEM()
	a.authorityPEM = kept.trusted()
	return nil
}

func (a *access) makeAuthority(ctx context.Context) (*identity.Authority, error) {
	made, err := identity.NewAuthority(time.Now())
	if err != nil {
		return nil, err
	}
	certificate, key := made.PEM()
	err = a.turns.update(ctx, func(t *taskqueue.Turn) error {
		taskqueue.Check(t.Meta().Set(metaAuthority, certificate))
		return t.Meta().Set(metaAuthorityKey, key)
	})
	if err != nil {
		return nil, fmt.Errorf("keep the authority: %w", err)
	}
	return made, nil
}

// signTerm signs a term that the queue has in office; nobody's is not signed.
func (a *access) signTerm(site task.Site, term task.Term) ([]byte, error) {
	if term.Epoch == 0 || term.Ballot != 0 {
		return nil, nil
	}
	return a.authority.SignTerm(site, term)
}

// signDenied signs the deny list in an answer to a site.
func (a *access) signDenied(site task.Site, reply *task.SyncReply) (err error) {
	if len(reply.Denied) > 0 {
		reply.DeniedSignature, err = a.authority.SignDenied(site, reply.Denied)
	}
	return err
}

// certificate is the server's own, renewed while it serves.
type certificate struct {
	current atomic.Pointer[tls.Certificate]
}

func (c *certificate) get() *tls.Certificate { return c.current.Load() }

// renewCertificate issues a new certificate when less than a third of the old
// one's life is left.
func (a *access) renewCertificate(now time.Time) error {
	if old := a.certificate.get(); old != nil && old.Leaf.NotAfter.Sub(now) > identity.ServerLife/3 {
		return nil
	}
	issued, err := a.authority.IssueServer(a.certificateHosts(), now)
	if err != nil {
		return err
	}
	a.certificate.current.Store(&issued)
	return nil
}

func (a *access) runRenewal(ctx context.Context) error {
	return a.config.every(ctx, time.Hour, "the server's certificate was not renewed", func(context.Context) error { return a.renewCertificate(time.Now()) })
}

// writeFile stores a file whole or not at all, unless it is there already;
// missing folders are made for the owner only.
func writeFile(path string, content []byte, mode os.FileMode) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, content) {
		return os.Chmod(path, mode)
	}
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := durable.WriteFile(path, content, mode); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
