package storage

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

// Memory is an element without a disk, for programs that simulate one and for
// tests. Its URLs begin with memory:///. The zero value is not usable.
type Memory struct {
	mu    sync.Mutex
	files map[string]memoryFile
}

type memoryFile struct {
	data     []byte // never changed
	modified time.Time
}

// NewMemory returns an empty element.
func NewMemory() *Memory { return &Memory{files: map[string]memoryFile{}} }

func memoryURL(name string) string { return "memory:///" + name }

func (m *Memory) find(ctx context.Context, op, name string) (memoryFile, error) {
	if err := validateName(name); err != nil {
		return memoryFile{}, err
	}
	if err := ended(ctx); err != nil {
		return memoryFile{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	file, found := m.files[name]
	if !found {
		return memoryFile{}, &Error{Op: op, URL: memoryURL(name), Kind: ErrNotFound}
	}
	return file, nil
}

// Get implements Element.
func (m *Memory) Get(ctx context.Context, name string, offset int64) (io.ReadCloser, int64, error) {
	file, err := m.find(ctx, "get", name)
	if err != nil {
		return nil, 0, err
	}
	size := int64(len(file.data))
	if offset < 0 || offset > size {
		return nil, 0, &Error{Op: "get", URL: memoryURL(name), Kind: ErrOffset, Err: fmt.Errorf("%d of %d bytes", offset, size)}
	}
	return io.NopCloser(untilEnded{ctx, bytes.NewReader(file.data[offset:])}), size, nil
}

// Put implements Element.
func (m *Memory) Put(ctx context.Context, name string, size int64, content io.ReadSeeker) (string, error) {
	if err := validateName(name); err != nil {
		return "", err
	}
	if _, err := checkSize(content, size); err != nil {
		return "", &Error{Op: "put", URL: memoryURL(name), Kind: ErrSize, Err: err}
	}
	data, err := io.ReadAll(untilEnded{ctx, content})
	if err != nil {
		return "", fmt.Errorf("put %s: %w", memoryURL(name), err)
	}
	if int64(len(data)) != size {
		return "", &Error{Op: "put", URL: memoryURL(name), Kind: ErrSize, Err: fmt.Errorf("%d bytes came, %d were announced", len(data), size)}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.files[name] = memoryFile{data: data, modified: time.Now()}
	return memoryURL(name), nil
}

// Head implements Element.
func (m *Memory) Head(ctx context.Context, name string) (Info, error) {
	file, err := m.find(ctx, "head", name)
	if err != nil {
		return Info{}, err
	}
	return Info{URL: memoryURL(name), Size: int64(len(file.data)), Modified: file.modified}, nil
}

// Delete implements Element.
func (m *Memory) Delete(ctx context.Context, name string) error {
	if err := validateName(name); err != nil {
		return err
	}
	if err := ended(ctx); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.files, name)
	return nil
}
