package workernode

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/pilotage-grid/pilotage/cache/storage"
	"github.com/pilotage-grid/pilotage/task"
)

// Put satisfies agent.Uploads. What a storage element gets is there to stay, so the
// bytes are compared with their digest first; damaged ones leave the cache.
func (n *workerNode) Put(ctx context.Context, element, name string, key task.FileKey, perhapsThere bool) (string, error) {
	if err := n.cache.Verify(key); err != nil {
		return "", fmt.Errorf("read it from the cache: %w", err)
	}
	pinned, err := n.cache.Pin(key)
	if err != nil {
		return "", fmt.Errorf("read it from the cache: %w", err)
	}
	defer pinned.Release()
	file, err := os.Open(pinned.Path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	at, err := n.storage.Element(element)
	if err != nil {
		return "", err
	}
	if perhapsThere {
		if url, err := n.Find(ctx, element, name, pinned.Size, pinned.Digest); err == nil && url != "" {
			return url, nil
		}
	}
	return at.Put(ctx, name, int64(pinned.Size), file)
}

// Find satisfies agent.Uploads.
func (n *workerNode) Find(ctx context.Context, element, name string, size task.Bytes, digest task.Digest) (string, error) {
	url, err := n.storage.Find(ctx, element, name, size, digest)
	if errors.Is(err, storage.ErrNotFound) {
		return "", nil
	}
	return url, err
}
