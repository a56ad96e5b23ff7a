package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/zeebo/blake3"

	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/cache/disk"
	"github.com/pilotage-grid/pilotage/task"
)

// MaxSources is how many peers one Fetch reads from at once.
const MaxSources = 4

// Fetch brings in what is missing of a download, from the first source or, if
// several are given, in chunks from all of them (at most MaxSources). It
// returns the sources that failed on the way; the error is nil when the file
// is whole all the same. Otherwise it is a *WriteError, that of the context,
// or joins those of the sources; verified chunks stay for another Fetch.
func (c *Client) Fetch(ctx context.Context, d *Download, sources ...cache.Holder) ([]*SourceError, error) {
	sources = sources[:min(len(sources), MaxSources)]
	var failed []*SourceError
	failOf := func(source cache.Holder, err error) {
		failed = append(failed, &SourceError{Peer: source.Peer, Err: err})
	}
	var able []cache.Holder
	for i, source := range sources {
		err := c.begin(ctx, d, source, len(sources) == 1, i == 0 || len(able) == 0)
		if fatal(ctx, err) {
			return failed, err
		}
		if err != nil {
			failOf(source, err)
			continue
		}
		able = append(able, source)
	}
	for len(able) > 0 && !d.whole() {
		errs := c.fetchParts(ctx, d, able)
		var left []cache.Holder
		for i, source := range able {
			if fatal(ctx, errs[i]) {
				return failed, errs[i]
			}
			if errs[i] != nil {
				failOf(source, errs[i])
				continue
			}
			left = append(left, source)
		}
		able = left
	}
	if d.whole() {
		return failed, nil
	}
	reasons := make([]error, len(failed))
	for i, err := range failed {
		reasons[i] = err
	}
	return failed, fmt.Errorf("fetch %s from %d pilots: %w", d.Key, len(sources), errors.Join(reasons...))
}

// fatal tells whether an error ends the whole fetch.
func fatal(ctx context.Context, err error) bool {
	var local *WriteError
	return err != nil && (errors.As(err, &local) || ctx.Err() != nil)
}

// begin learns the manifest from a source. A small file comes along with it:
// one request does all. The first source's manifest counts; others have to
// agree with it.
func (c *Client) begin(ctx context.Context, d *Download, from cache.Holder, alone, first bool) error {
	if alone && d.Size >= 0 && d.Size <= disk.ChunkSize && !d.whole() {
		return c.fetchSmall(ctx, d, from)
	}
	manifest, digest, err := c.manifest(ctx, d, from)
	switch {
	case err != nil:
		return err
	case first:
		return d.accept(manifest, digest, from.Peer)
	case !d.agrees(manifest):
		return &CorruptError{Peer: from.Peer, Key: d.Key, Reason: "its manifest differs from that of another pilot"}
	}
	return nil
}

func (c *Client) manifest(ctx context.Context, d *Download, from cache.Holder) (disk.Manifest, task.Digest, error) {
	answer, err := c.get(ctx, from, targetOf(from.DataURL, d.Key)+manifestSuffix, "", 1)
	if err != nil {
		return disk.Manifest{}, task.Digest{}, err
	}
	defer answer.Close()
	data, err := io.ReadAll(io.LimitReader(answer, maxManifest))
	if err != nil {
		return disk.Manifest{}, task.Digest{}, unreachable(ctx, err)
	}
	answer.taken = true
	manifest, digest, err := decodeManifest(data, d.Key, d.Size)
	if err != nil {
		return manifest, digest, &CorruptError{Peer: from.Peer, Key: d.Key, Reason: err.Error()}
	}
	return manifest, digest, nil
}

// fetchSmall fetches a file of at most one chunk, with its manifest in the
// header.
func (c *Client) fetchSmall(ctx context.Context, d *Download, from cache.Holder) error {
	answer, err := c.get(ctx, from, targetOf(from.DataURL, d.Key), "", 1)
	if err != nil {
		return err
	}
	defer answer.Close()
	manifest, digest, err := decodeManifest([]byte(answer.Header.Get(headerManifest)), d.Key, d.Size)
	if err != nil {
		return &CorruptError{Peer: from.Peer, Key: d.Key, Reason: err.Error()}
	}
	if err := d.accept(manifest, digest, from.Peer); err != nil {
		return err
	}
	if first, count := d.take(1); count > 0 {
		return c.receive(ctx, d, from, answer, first, count)
	}
	return nil
}

// fetchParts reads from all sources until nothing is left to take, and returns
// an error or nil for each.
func (c *Client) fetchParts(ctx context.Context, d *Download, sources []cache.Holder) []error {
	limit := 1
	if len(sources) == 1 {
		limit = len(d.have) // all in one stream
	}
	errs := make([]error, len(sources))
	var group sync.WaitGroup
	for i, source := range sources {
		group.Go(func() {
			for errs[i] == nil {
				first, count := d.take(limit)
				if count == 0 {
					return
				}
				errs[i] = c.fetchRun(ctx, d, source, first, count, len(sources))
			}
		})
	}
	group.Wait()
	return errs
}

// fetchRun fetches chunks that follow each other; so many sources do.
func (c *Client) fetchRun(ctx context.Context, d *Download, from cache.Holder, first, count, sources int) error {
	begin, _ := d.manifest.Range(first)
	last, size := d.manifest.Range(first + count - 1)
	end := last + size
	answer, err := c.get(ctx, from, targetOf(from.DataURL, d.Key), fmt.Sprintf("bytes=%d-%d", begin, end-1), sources)
	if err != nil {
		d.giveBack(first, count)
		return err
	}
	defer answer.Close()
	whole := begin == 0 && end == d.manifest.Size && answer.StatusCode == http.StatusOK
	wanted := strings.HasPrefix(answer.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-%d/", begin, end-1))
	if !whole && !wanted {
		d.giveBack(first, count)
		return fmt.Errorf("%w: asked for bytes %d to %d, it sends %.60q", ErrUnreachable, begin, end-1, answer.Header.Get("Content-Range"))
	}
	return c.receive(ctx, d, from, answer, first, count)
}

// copyBuffers are large enough for the wide lanes of BLAKE3.
var copyBuffers = sync.Pool{New: func() any { b := make([]byte, 256<<10); return &b }}

// receive writes chunks as they come and counts each when its digest is right.
// A chunk that was wrong has been written nevertheless, and is written over by
// the next source; it is never counted.
func (c *Client) receive(ctx context.Context, d *Download, from cache.Holder, body *answer, first, count int) error {
	defer d.giveBack(first, count)
	buffer := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(buffer)
	for i := first; i < first+count; i++ {
		offset, left := d.manifest.Range(i)
		hasher := blake3.New()
		for left > 0 {
			part := (*buffer)[:min(left, task.Bytes(len(*buffer)))]
			n, err := io.ReadFull(body, part)
			if err != nil {
				return unreachable(ctx, fmt.Errorf("after %d bytes: %w", int64(offset)+int64(n), err))
			}
			_, _ = hasher.Write(part) // hashes never fail
			if _, err := d.into.WriteAt(part, int64(offset)); err != nil {
				return &WriteError{Err: err}
			}
			d.progress(n)
			offset += task.Bytes(n)
			left -= task.Bytes(n)
		}
		var got task.Digest
		hasher.Sum(got[:0])
		if got != d.manifest.Chunks[i] {
			return &CorruptError{Peer: from.Peer, Key: d.Key, Reason: fmt.Sprintf("chunk %d has digest %s, expected %s", i, got, d.manifest.Chunks[i])}
		}
		d.arrived(i, from.Peer)
	}
	body.taken = true
	return nil
}
