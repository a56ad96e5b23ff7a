package node

import (
	"math"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/task"
)

// TestNobodyReignsWithoutTheQueuesSignature judges what members say about masters.
func TestNobodyReignsWithoutTheQueuesSignature(t *testing.T) {
	authority, err := identity.NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pem, _ := authority.PEM()
	verifier, err := identity.NewVerifier(pem)
	if err != nil {
		t.Fatal(err)
	}
	sign := func(site task.Site, epoch uint64, peer task.PeerID) []byte {
		signature, err := authority.SignTerm(site, task.Term{Epoch: epoch, Peer: peer})
		if err != nil {
			t.Fatal(err)
		}
		return signature
	}
	g := &grants{site: "siteA", verifier: verifier}
	g.learn(task.Term{Epoch: 5, Peer: "first"}, sign("siteA", 5, "first"))
	office := func(epoch, ballot uint64, peer task.PeerID, grant dht.Grant) dht.Message {
		return dht.Office{Term: task.Term{Epoch: epoch, Ballot: ballot, Peer: peer}, Master: dht.Member{Peer: peer}, Grant: grant}
	}
	for _, c := range []struct {
		what  string
		said  dht.Message
		taken bool
	}{
		{"the master in office", office(5, 0, "first", dht.Grant{}), true},
		{"an earlier one, whom the core passes over", office(4, 0, "rogue", dht.Grant{}), true},
		{"elected without the queue", office(5, 3, "second", dht.Grant{}), true},
		{"another one of the same epoch", office(5, 0, "rogue", dht.Grant{}), false},
		{"the last epoch of all", office(math.MaxUint64, 0, "rogue", dht.Grant{}), false},
		{"with a signature of an earlier one", office(6, 0, "first", dht.Grant{Peer: "first", Signature: sign("siteA", 5, "first")}), false},
		{"with the signature of another's", office(6, 0, "rogue", dht.Grant{Peer: "second", Signature: sign("siteA", 6, "second")}), false},
		{"of another site", office(6, 0, "second", dht.Grant{Peer: "second", Signature: sign("siteB", 6, "second")}), false},
		{"a ballot of an epoch that nobody got", office(7, 1, "rogue", dht.Grant{Peer: "rogue", Signature: sign("siteA", 5, "first")}), false},
		{"another master than the term's", dht.Cast{Term: task.Term{Epoch: 5, Peer: "first"}, Master: dht.Member{Peer: "rogue"}}, false},
		{"granted by the queue", office(6, 0, "second", dht.Grant{Peer: "second", Signature: sign("siteA", 6, "second")}), true},
		{"known from then on", office(6, 0, "second", dht.Grant{}), true},
		{"something else", dht.Ping{}, true},
	} {
		if err := g.check(c.said); (err == nil) != c.taken {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	if said := g.attach(office(6, 2, "third", dht.Grant{})).(dht.Office); said.Grant.Peer != "second" {
		t.Errorf("what this pilot says carries %v", said.Grant)
	}
	before := &grants{site: "siteA", verifier: verifier}
	before.learn(task.Term{Epoch: 5, Peer: "first"}, nil)
	if err := before.check(office(6, 0, "second", dht.Grant{})); err != nil {
		t.Errorf("a queue of the release before signs nothing: %v", err)
	}
	if before.learn(task.Term{Epoch: 6, Peer: "second"}, sign("siteA", 6, "second")); before.check(office(7, 0, "third", dht.Grant{})) == nil {
		t.Error("the queue was updated, and the pilot goes on without its signature")
	}
}
