package storage

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/zeebo/blake3"

	"github.com/pilotage-grid/pilotage/task"
)

// Find looks for a file by its name below an element and returns its URL. It reads
// what is there: a copy may be damaged. The error is ErrNotFound where there is none
// of that size and content.
func (c *Client) Find(ctx context.Context, element, name string, size task.Bytes, digest task.Digest) (string, error) {
	at, err := c.Element(element)
	if err != nil {
		return "", err
	}
	there, err := at.Head(ctx, name)
	if errors.Is(err, ErrNotFound) {
		if away := Mounted(element, false); away != nil {
			return "", away
		}
	}
	if err != nil {
		return "", err
	}
	if there.Size != int64(size) && there.Size >= 0 {
		return "", fmt.Errorf("%w: %s has %d bytes, not %d", ErrNotFound, there.URL, there.Size, size)
	}
	content, _, err := at.Get(ctx, name, 0)
	if err != nil {
		return "", err
	}
	defer func() { _ = content.Close() }()
	hash := blake3.New()
	if _, err := io.Copy(hash, content); err != nil {
		return "", fmt.Errorf("read %s: %w", there.URL, err)
	}
	if task.Digest(hash.Sum(nil)) != digest {
		return "", fmt.Errorf("%w: %s has other bytes", ErrNotFound, there.URL)
	}
	return there.URL, nil
}
