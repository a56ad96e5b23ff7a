package agent

import (
	"context"

	"github.com/pilotage-grid/pilotage/cache/fetch"
	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/dht/node"
	"github.com/pilotage-grid/pilotage/task"
)

// Frames tell whom bytes between pilots are for.
const (
	frameRole     byte = iota + 1 // master and worker
	frameDesk                     // to the home of a file
	frameHome                     // from the home of a file
	frameSettings                 // the site's settings, from its master
)

func frame(kind byte, data []byte) []byte { return append([]byte{kind}, data...) }

// network is the pilot's place in the site's network, and what goes through it
// beside the two roles: who has files, and who may read them from storage.
type network struct {
	*shell

	node     *node.Node
	peer     task.PeerID
	settings *siteSettings
	desk     *fetch.Desk
	homes    *fetch.HomesClient
	joining  func() error  // joins the overlay; nil when that was done; the loop owns it
	joined   chan struct{} // closed when that was done
}

func newNetwork(s *shell, n *node.Node, self fetch.Holder, settings *siteSettings) *network {
	w := &network{shell: s, node: n, peer: self.Peer, settings: settings, joined: make(chan struct{})}
	w.desk = fetch.NewDesk(func(to task.PeerID, data []byte) { n.Send(to, frame(frameHome, data)) })
	w.desk.Redirect = n.Redirect
	w.homes = fetch.NewHomes(self, w.homeOf, func(to task.PeerID, data []byte) { n.Send(to, frame(frameDesk, data)) })
	return w
}

// enter joins the site's network, once.
func (w *network) enter() error {
	if w.joining == nil {
		return nil
	}
	if err := w.joining(); err != nil {
		w.log.Error("this pilot cannot join the site's network", "error", err)
		return err
	}
	w.joining = nil
	close(w.joined)
	return nil
}

// run carries the overlay on from the moment it is joined.
func (w *network) run(ctx context.Context) error {
	select {
	case <-w.joined:
		return w.node.Run(ctx)
	case <-ctx.Done():
		return nil
	}
}

// inside tells whether this pilot has joined the site's network.
func (w *network) inside() bool {
	select {
	case <-w.joined:
		return true
	default:
		return false
	}
}

// leads tells whether the overlay has this pilot in office, and in which term.
func (w *network) leads() (bool, task.Term) {
	master, term := w.node.Master()
	return master.Peer == w.peer, term
}

// others are the known members but this pilot.
func (w *network) others() []dht.Member {
	var others []dht.Member
	for _, m := range w.node.Members() {
		if m.Peer != w.peer {
			others = append(others, m)
		}
	}
	return others
}

// announce tells the site of files, where files are shared.
func (w *network) announce(keys ...task.FileKey) {
	if !w.settings.isolated() {
		w.node.Announce(keys...)
	}
}

// withdraw tells the site that files are gone, where it was told of them.
func (w *network) withdraw(keys ...task.FileKey) {
	if w.inside() {
		w.node.Withdraw(keys...)
	}
}

// tellSettings tells another pilot the settings of the site, or all others.
func (w *network) tellSettings(to task.PeerID) {
	data, err := encodeSettings(w.settings.get())
	if err != nil {
		w.log.Error("the settings of the site cannot be told", "error", err)
		return
	}
	told := []dht.Member{{Peer: to}}
	if to == "" {
		told = w.others()
	}
	for _, m := range told {
		w.node.Send(m.Peer, frame(frameSettings, data))
	}
}

// homeOf finds a file's home: the nearest live member to its key.
func (w *network) homeOf(key task.FileKey) (task.PeerID, bool) {
	nearest := w.node.Nearest(key, 1)
	if len(nearest) == 0 || w.settings.isolated() {
		return "", false
	}
	return nearest[0].Peer, true
}

// Locate satisfies fetch.Locator: it finds files through the overlay.
func (w *network) Locate(ctx context.Context, keys []task.FileKey, doubted []task.PeerID) (map[task.FileKey][]fetch.Holder, error) {
	if w.settings.isolated() {
		return nil, nil
	}
	found, err := w.node.Locate(ctx, keys, doubted)
	if err != nil {
		return nil, err
	}
	holders := make(map[task.FileKey][]fetch.Holder, len(found))
	for key, list := range found {
		for _, h := range list {
			holders[key] = append(holders[key], fetch.Holder(h))
		}
	}
	return holders, nil
}
