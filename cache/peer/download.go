package peer

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/cache/disk"
	"github.com/pilotage-grid/pilotage/task"
)

// Download is one file on its way in. It outlives a source: another Fetch goes
// on with the chunks that are missing. Its methods are safe for concurrent
// use; its fields are not to be changed after the first Fetch.
type Download struct {
	Key  task.FileKey
	Size task.Bytes // -1 when not known
	// Create is called once, as soon as the size is known, for where to write.
	Create func(size task.Bytes) (io.WriterAt, error)
	// Progress, if set, is told of bytes that arrived, verified or not, from
	// several goroutines.
	Progress func(bytes task.Bytes)

	mu       sync.Mutex
	into     io.WriterAt
	known    bool // the manifest is
	manifest disk.Manifest
	from     task.PeerID // who gave the manifest
	have     []bool      // verified chunks
	taken    []bool      // chunks being fetched
	left     int         // chunks neither verified
	given    map[task.PeerID]task.Bytes
}

// Manifest returns the manifest and who gave it, once it is known. A whole
// file that has not the expected digest was described wrongly by that peer.
func (d *Download) Manifest() (manifest disk.Manifest, from task.PeerID, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.manifest, d.from, d.known
}

// MainSource is the peer that gave most bytes; of several the first by id.
func (d *Download) MainSource() task.PeerID {
	d.mu.Lock()
	defer d.mu.Unlock()
	main := d.from
	for peer, bytes := range d.given {
		if bytes > d.given[main] || bytes == d.given[main] && peer < main {
			main = peer
		}
	}
	return main
}

// Verified is how many bytes have arrived and been verified.
func (d *Download) Verified() task.Bytes {
	d.mu.Lock()
	defer d.mu.Unlock()
	var sum task.Bytes
	for i, have := range d.have {
		if have {
			_, size := d.manifest.Range(i)
			sum += size
		}
	}
	return sum
}

// accept takes a peer's manifest. While chunks of another one's are there and
// that peer is asked no more, the new one replaces it and they are fetched
// again, since nobody can tell who is right before the file is whole.
func (d *Download) accept(manifest disk.Manifest, digest task.Digest, from task.PeerID) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known && d.manifest.Equal(manifest) {
		return nil
	}
	if d.known && d.manifest.Size != manifest.Size {
		return &CorruptError{Peer: from, Key: d.Key, Reason: fmt.Sprintf("its file has %d bytes, that of %s %d", manifest.Size, d.from, d.manifest.Size)}
	}
	if d.into == nil {
		into, err := d.Create(manifest.Size)
		if full := (*cache.NoSpaceError)(nil); d.Size < 0 && errors.As(err, &full) {
			return &CorruptError{Peer: from, Key: d.Key, Reason: fmt.Sprintf("there is no room for the %d bytes that it says the file has: %v", manifest.Size, err)}
		}
		if err != nil {
			return &WriteError{Err: err}
		}
		d.into = into
	}
	d.known, d.manifest, d.from = true, manifest, from
	d.have = make([]bool, len(manifest.Chunks))
	d.taken = make([]bool, len(manifest.Chunks))
	d.left = len(manifest.Chunks)
	d.given = map[task.PeerID]task.Bytes{}
	return nil
}

// agrees tells whether a manifest is the accepted one.
func (d *Download) agrees(manifest disk.Manifest) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.manifest.Equal(manifest)
}

// take reserves the next run of missing chunks, at most limit; none when
// first is negative.
func (d *Download) take(limit int) (first, count int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	first = -1
	for i := range d.have {
		free := !d.have[i] && !d.taken[i]
		if first < 0 && free {
			first = i
		}
		if first >= 0 && (!free || count == limit) {
			break
		}
		if first >= 0 {
			d.taken[i] = true
			count++
		}
	}
	return first, count
}

// giveBack lets others fetch what was taken and did not arrive.
func (d *Download) giveBack(first, count int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := first; i < first+count; i++ {
		d.taken[i] = false
	}
}

// arrived counts a verified chunk.
func (d *Download) arrived(i int, from task.PeerID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.have[i] {
		d.have[i] = true
		d.left--
		_, size := d.manifest.Range(i)
		d.given[from] += size
	}
}

// Prefix is how many bytes from the beginning have arrived and been verified
// without a hole.
func (d *Download) Prefix() task.Bytes {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, have := range d.have {
		if !have {
			offset, _ := d.manifest.Range(i)
			return offset
		}
	}
	return d.manifest.Size
}

func (d *Download) whole() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.known && d.left == 0
}

func (d *Download) progress(bytes int) {
	if d.Progress != nil {
		d.Progress(task.Bytes(bytes))
	}
}
