package agent

import (
	"bytes"
	"hash/maphash"
	"sync"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/pilot/wire"
)

// Shared is what thousands of pilots in one process need only once: compiled
// expressions, the entries of task lists, broadcasts as they were read, the
// members of sites, and which memberships were found genuine. It is safe for
// concurrent use.
type Shared struct {
	compiler  *matcher.Compiler
	directory *dht.Directory
	catalogue *matcher.Catalogue
	seed      maphash.Seed

	mutex     sync.Mutex
	verifiers map[string]*identity.Verifier // by authority
	reads     [keptReads]*read              // the latest broadcasts
	next      int
}

// keptReads is how many broadcasts are kept as they were read: some for each
// site, as they are still on their way to other pilots.
const keptReads = 16

// read is one broadcast.
type read struct {
	sum     uint64
	data    []byte
	once    sync.Once
	message message.Message
	err     error
}

// NewShared returns one without content.
func NewShared() *Shared {
	return &Shared{
		compiler: matcher.NewCompiler(compiledExpressions), catalogue: matcher.NewCatalogue(), directory: dht.NewDirectory(),
		seed: maphash.MakeSeed(), verifiers: make(map[string]*identity.Verifier),
	}
}

// verifier returns a pilot's own verifier.
func (s *Shared) verifier(authority string) (*identity.Verifier, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	first := s.verifiers[authority]
	if first == nil {
		var err error
		if first, err = identity.NewVerifier([]byte(authority)); err != nil {
			return nil, err
		}
		s.verifiers[authority] = first
	}
	return first.Another(), nil
}

// decode reads a broadcast, which is the same for all pilots of a site. What
// it returns is not to be changed.
func (s *Shared) decode(data []byte) (message.Message, error) {
	found := s.read(data)
	found.once.Do(func() { found.message, found.err = wire.Decode(found.data) })
	return found.message, found.err
}

// read finds a broadcast among the latest, or makes it one of them.
func (s *Shared) read(data []byte) *read {
	sum := maphash.Bytes(s.seed, data)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, known := range s.reads {
		if known != nil && known.sum == sum && bytes.Equal(known.data, data) {
			return known
		}
	}
	fresh := &read{sum: sum, data: data}
	s.reads[s.next] = fresh
	s.next = (s.next + 1) % keptReads
	return fresh
}

func (a *Agent) newVerifier() (*identity.Verifier, error) {
	if a.config.Shared != nil {
		return a.config.Shared.verifier(a.config.Access.CAPEM)
	}
	return identity.NewVerifier([]byte(a.config.Access.CAPEM))
}

// matching returns what expressions are compiled with, and where the entries of
// task lists are kept.
func (a *Agent) matching() (*matcher.Compiler, *matcher.Catalogue) {
	if a.config.Shared != nil {
		return a.config.Shared.compiler, a.config.Shared.catalogue
	}
	return matcher.NewCompiler(compiledExpressions), matcher.NewCatalogue()
}

// directory returns where the members of sites are kept; nil: by the node.
func (a *Agent) directory() *dht.Directory {
	if a.config.Shared != nil {
		return a.config.Shared.directory
	}
	return nil
}

// read reads a broadcast.
func (a *Agent) read(broadcast []byte) (message.Message, error) {
	if a.config.Shared != nil {
		return a.config.Shared.decode(broadcast)
	}
	return wire.Decode(broadcast)
}
