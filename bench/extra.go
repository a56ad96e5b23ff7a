package bench

import (
	"context"
	"errors"

	"google.golang.org/grpc"
)

// Extra has the pilots of a run send more messages to the queue than the
// product's pilots do, as another protocol would.
type Extra interface {
	// Pilot returns the voice of one pilot. queue is open until the run ends and
	// carries the token of a pilot of the same site.
	Pilot(queue *grpc.ClientConn) ExtraPilot
	// Sent is how many messages were sent until now, and how many of them wait for
	// an answer.
	Sent() (sent, waiting float64)
}

// ExtraPilot is told what one pilot does and sends what it likes. Its methods may
// be called by several goroutines; the pilot goes on when they return.
type ExtraPilot interface {
	Assigned()              // a payload is about to start
	Ended(outputs int)      // a payload has made so many files, or was cancelled
	CacheChanged(files int) // so many files came into the cache, or left it
	Beat(ctx context.Context)
}

// silent sends nothing.
type silent struct{}

func (silent) Assigned()            {}
func (silent) Ended(int)            {}
func (silent) CacheChanged(int)     {}
func (silent) Beat(context.Context) {}

// lines are the connections of a run's extra messages, one for each site.
type lines []*grpc.ClientConn

// openLines connects each site; without extra messages there is nothing to connect.
func (o Overlay) openLines(q *queueProcess) (opened lines, err error) {
	for i := 0; o.Extra != nil && i < o.Sites; i++ {
		access, err := q.access("pilot-" + overlaySite(i))
		if err != nil {
			return nil, errors.Join(err, opened.close())
		}
		line, err := connect(access)
		if err != nil {
			return nil, errors.Join(err, opened.close())
		}
		opened = append(opened, line)
	}
	return opened, nil
}

func (l lines) close() (err error) {
	for _, line := range l {
		err = errors.Join(err, line.Close())
	}
	return err
}

// voice is what a pilot sends beside the product's messages.
func (o Overlay) voice(l lines, pilot int) ExtraPilot {
	if o.Extra == nil {
		return silent{}
	}
	return o.Extra.Pilot(l[pilot%o.Sites])
}
