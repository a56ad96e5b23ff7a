package node

import "github.com/pilotage-grid/pilotage/dht"

// word is what the queue has signed, and members pass on to each other: who got the
// office, and whose membership is revoked. It is safe for concurrent use.
type word struct {
	grants  grants
	denials denials
}

func (w *word) begin(c Config) {
	w.grants.site, w.grants.verifier = c.Site, c.Verifier
	w.denials.site, w.denials.verifier, w.denials.clock = c.Site, c.Verifier, c.Clock
}

// attach adds the queue's word to the messages that it goes with.
func (w *word) attach(message dht.Message) dht.Message {
	return w.denials.attach(w.grants.attach(message))
}

// check returns whom a message newly denies, and refuses one with a word that is not the
// queue's.
func (w *word) check(message dht.Message) (dht.Denial, error) {
	if err := w.grants.check(message); err != nil {
		return dht.Denial{}, err
	}
	return w.denials.check(message)
}
