package node

import (
	"context"
	"fmt"
	"sync"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/task"
)

// questions are those for holders of files that the core has not answered yet. It is
// safe for concurrent use.
type questions struct {
	mutex sync.Mutex
	open  map[uint64]chan map[task.FileKey][]dht.Holder
	last  uint64
}

func (q *questions) ask() (number uint64, answer <-chan map[task.FileKey][]dht.Holder) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	q.last++
	waits := make(chan map[task.FileKey][]dht.Holder, 1)
	q.open[q.last] = waits
	return q.last, waits
}

// answer hands an answer to whoever still waits for it.
func (q *questions) answer(number uint64, holders map[task.FileKey][]dht.Holder) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	if answer, waiting := q.open[number]; waiting {
		delete(q.open, number)
		answer <- holders
	}
}

// locateBatch bounds the files of one question to the core, so that no message
// gets too large.
const locateBatch = 1000

// Locate asks the site who holds files; those that nobody holds are absent
// from the answer. Where only members that are doubted are named, more of the site is
// asked. It needs Run to go on.
func (n *Node) Locate(ctx context.Context, files []task.FileKey, doubted []task.PeerID) (map[task.FileKey][]dht.Holder, error) {
	holders := make(map[task.FileKey][]dht.Holder, len(files))
	for len(files) > 0 {
		batch := files[:min(locateBatch, len(files))]
		files = files[len(batch):]
		some, err := n.locate(ctx, batch, doubted)
		if err != nil {
			return nil, fmt.Errorf("locate %d files: %w", len(batch), err)
		}
		for file, list := range some {
			holders[file] = list
		}
	}
	return holders, nil
}

func (n *Node) locate(ctx context.Context, files []task.FileKey, doubted []task.PeerID) (map[task.FileKey][]dht.Holder, error) {
	number, answer := n.questions.ask()
	n.post(dht.Locate{N: number, Files: files, Doubted: doubted})
	select {
	case holders := <-answer:
		return holders, nil
	case <-ctx.Done():
		n.questions.answer(number, nil)
		return nil, ctx.Err()
	case <-n.life.ctx.Done():
		return nil, ErrClosed
	}
}
