package disk

import (
	"context"
	"fmt"
	"hash"
	"hash/adler32"
	"io"
	"slices"
	"sync"

	"github.com/zeebo/blake3"
	"golang.org/x/sync/errgroup"

	"github.com/pilotage-grid/pilotage/task"
)

// ChunkSize is the part of a file that is verified on its own: large enough
// that a manifest is tiny (32 bytes each), small enough that little is read
// again after a broken transfer.
const ChunkSize = 16 * task.MiB

// Manifest lists the BLAKE3-256 digests of a file's chunks, so that parts from
// several sources can be verified as they arrive. Every chunk has Chunk bytes
// but the last; an empty file has none.
type Manifest struct {
	Size   task.Bytes
	Chunk  task.Bytes // bytes per chunk
	Chunks []task.Digest
}

// Validate checks the form of a manifest that came from outside.
func (m Manifest) Validate() error {
	if m.Size < 0 || m.Chunk <= 0 {
		return fmt.Errorf("manifest of %d bytes in chunks of %d: size must not be negative and chunks must have bytes", m.Size, m.Chunk)
	}
	if want := chunkCount(m.Size, m.Chunk); int64(len(m.Chunks)) != want {
		return fmt.Errorf("manifest of %d bytes in chunks of %d lists %d chunks, expected %d", m.Size, m.Chunk, len(m.Chunks), want)
	}
	return nil
}

// Range returns where chunk i begins and how many bytes it has.
func (m Manifest) Range(i int) (offset, size task.Bytes) {
	offset = task.Bytes(i) * m.Chunk
	return offset, min(m.Chunk, m.Size-offset)
}

// VerifyChunk tells whether data is the whole chunk i.
func (m Manifest) VerifyChunk(i int, data []byte) bool {
	if i < 0 || i >= len(m.Chunks) {
		return false
	}
	_, size := m.Range(i)
	return task.Bytes(len(data)) == size && task.Digest(blake3.Sum256(data)) == m.Chunks[i]
}

// Equal tells whether two manifests say the same.
func (m Manifest) Equal(other Manifest) bool {
	return m.Size == other.Size && m.Chunk == other.Chunk && slices.Equal(m.Chunks, other.Chunks)
}

func chunkCount(size, chunk task.Bytes) int64 {
	count := int64(size / chunk)
	if size%chunk != 0 {
		count++
	}
	return count
}

// content is what hashing a file tells.
type content struct {
	digest   task.Digest
	manifest Manifest
	adler32  string // 8 hex digits, "" when not asked for
}

// buffers for hashing: large enough for the wide lanes of BLAKE3, small enough
// to stay in the second-level cache of a core.
var buffers = sync.Pool{New: func() any { b := make([]byte, 256<<10); return &b }}

// digestContent hashes size bytes of a file. The digest of the whole and those
// of the chunks are separate hashes, so a file of several chunks is read by
// two goroutines at once; one of a single chunk needs only one hash.
func digestContent(ctx context.Context, file io.ReaderAt, size task.Bytes, withAdler bool) (content, error) {
	result := content{manifest: Manifest{Size: size, Chunk: ChunkSize}}
	adler := adler32.New()
	chunkPass := func(ctx context.Context) error {
		for i := range int(chunkCount(size, ChunkSize)) {
			offset, length := result.manifest.Range(i)
			hasher := blake3.New()
			into := []hash.Hash{hasher}
			if withAdler {
				into = append(into, adler)
			}
			if err := hashRange(ctx, file, offset, length, into...); err != nil {
				return err
			}
			result.manifest.Chunks = append(result.manifest.Chunks, sum(hasher))
		}
		return nil
	}
	var err error
	if size > ChunkSize {
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error { return chunkPass(ctx) })
		group.Go(func() error {
			hasher := blake3.New()
			err := hashRange(ctx, file, 0, size, hasher)
			result.digest = sum(hasher)
			return err
		})
		err = group.Wait()
	} else if err = chunkPass(ctx); size > 0 && err == nil {
		result.digest = result.manifest.Chunks[0]
	} else {
		result.digest = sum(blake3.New())
	}
	if withAdler {
		result.adler32 = fmt.Sprintf("%08x", adler.Sum32())
	}
	return result, err
}

func hashRange(ctx context.Context, file io.ReaderAt, offset, length task.Bytes, into ...hash.Hash) error {
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	for end := offset + length; offset < end; {
		if err := ctx.Err(); err != nil {
			return err
		}
		part := (*buffer)[:min(task.Bytes(len(*buffer)), end-offset)]
		n, err := file.ReadAt(part, int64(offset))
		if n < len(part) {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return fmt.Errorf("read at byte %d: %w", int64(offset)+int64(n), err)
		}
		for _, h := range into {
			h.Write(part) // hashes never fail
		}
		offset += task.Bytes(n)
	}
	return nil
}

func sum(h hash.Hash) (digest task.Digest) {
	h.Sum(digest[:0])
	return digest
}
