package storage

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// Element is a storage element. Names are relative paths as task.ValidateLFN
// allows them. Implementations are safe for concurrent use, and every one of
// them passes storagetest.Run.
type Element interface {
	// Get opens a file at a byte offset. Size is that of the whole file, -1 if
	// the server does not say. The reader ends with an error when the content
	// ends early, and never yields more than size. Errors: ErrNotFound,
	// ErrOffset (beyond the end; at the end the reader is empty),
	// ErrUnreachable, ErrRefused.
	Get(ctx context.Context, name string, offset int64) (content io.ReadCloser, size int64, err error)
	// Put writes a file of exactly size bytes from the position where content
	// is and returns its URL. Folders are created as needed; an existing file is
	// replaced. Content may be read several times and must not be used
	// meanwhile. No incomplete file gets visible on file://; over HTTP it is the
	// server's duty, and the size is looked up afterwards, so that of writers
	// of one name with different sizes one may get ErrSize. Errors: ErrSize,
	// ErrFull, ErrUnreachable, ErrRefused.
	Put(ctx context.Context, name string, size int64, content io.ReadSeeker) (url string, err error)
	// Head looks a file up. Errors: ErrNotFound, ErrUnreachable, ErrRefused.
	Head(ctx context.Context, name string) (Info, error)
	// Delete removes a file; one that is not there is no error. Errors:
	// ErrUnreachable, ErrRefused.
	Delete(ctx context.Context, name string) error
	// List returns names of what is in a folder, those of folders with a slash at
	// their end, in no order and at most limit; what no file of an element can be
	// called is left out. Errors: ErrNotFound (no such folder), ErrUnsupported,
	// ErrUnreachable, ErrRefused.
	List(ctx context.Context, folder string, limit int) (names []string, err error)
}

// Info is what Head tells.
type Info struct {
	URL      string
	Size     int64     // bytes, -1 if the server does not say
	Modified time.Time // zero if the server does not say
}

// Options of a Client. The zero value is usable.
type Options struct {
	// Secrets, if set, are asked before each request for what opens storage
	// elements. A credential is shown to its own element only: never to the host of
	// another replica, nor along a redirect to another host, and a token never in
	// plain text over a network.
	Secrets  func() task.StorageSecrets
	Timeouts Timeouts
	Retry    Retry
	// Client, if set, is used instead of an own one where no credential changes how
	// connections are made; the times for dialling, TLS and headers are then its
	// own matter. Its redirect policy is
	// replaced by that of this package.
	Client *http.Client
	// FileRoots are folders below which OpenReplica may read file:// URLs,
	// besides those of file:// elements that this client opened: a replica's URL
	// comes from whoever registered the file, and must not lead to other files
	// of the pilot's account.
	FileRoots []string
	// MaxUnsized bounds what is read from a server that does not say how large
	// a file is. Zero means the default.
	MaxUnsized task.Bytes
}

// DefaultMaxUnsized is the largest file read without an announced size.
const DefaultMaxUnsized = 64 * task.GiB

// Timeouts of one try. Zero fields mean the defaults.
type Timeouts struct {
	Dial   time.Duration // to connect: 5 s, long for a site network
	TLS    time.Duration // to shake hands: 5 s
	Header time.Duration // from the end of a request to the answer: 60 s, since tape-backed servers think long
	Stall  time.Duration // in which a transfer moves 64 KiB at least, or ends: 60 s
}

func (t Timeouts) withDefaults() Timeouts {
	set := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	set(&t.Dial, 5*time.Second)
	set(&t.TLS, 5*time.Second)
	set(&t.Header, time.Minute)
	set(&t.Stall, time.Minute)
	return t
}

// Client opens elements and replicas that share connections and, per host,
// retry budgets. Elements are places that somebody responsible named, replicas
// any URL that was registered: see Secrets and FileRoots for the difference. Safe for concurrent use.
type Client struct {
	web *web

	mu        sync.Mutex
	fileRoots []string // absolute, clean
}

// NewClient returns a client. It connects to nothing yet.
func NewClient(opts Options) *Client {
	if opts.MaxUnsized == 0 {
		opts.MaxUnsized = DefaultMaxUnsized
	}
	opts.Timeouts = opts.Timeouts.withDefaults()
	opts.Retry = opts.Retry.withDefaults()
	c := &Client{web: newWeb(opts)}
	for _, root := range opts.FileRoots {
		c.fileRoots = append(c.fileRoots, filepath.Clean(root))
	}
	return c
}

// Element returns the element at file:///folder, http://host/prefix or
// https://host/prefix. It checks the URL only; ErrInvalid tells what is wrong
// with it.
func (c *Client) Element(rawURL string) (Element, error) {
	parsed, err := parse(rawURL)
	if err != nil {
		return nil, err
	}
	if parsed.RawQuery != "" {
		return nil, invalid(rawURL, "has a query: an element is a place below which files have names")
	}
	if parsed.Scheme == "file" {
		dir := filepath.Clean(parsed.Path)
		c.mu.Lock()
		defer c.mu.Unlock()
		if !slices.Contains(c.fileRoots, dir) {
			c.fileRoots = append(c.fileRoots, dir)
		}
		return &folder{dir: dir}, nil
	}
	return &webElement{web: c.web, base: parsed}, nil
}

// OpenReplica reads one copy of a file at a byte offset by its own URL,
// whatever element it is on. Results and errors are those of Element.Get; a
// file:// URL outside the elements of this client and Options.FileRoots is
// refused.
func (c *Client) OpenReplica(ctx context.Context, rawURL string, offset int64) (io.ReadCloser, int64, error) {
	parsed, err := parse(rawURL)
	if err != nil {
		return nil, 0, err
	}
	if parsed.Scheme != "file" {
		return c.web.get(ctx, parsed, offset)
	}
	path := filepath.Clean(parsed.Path)
	c.mu.Lock()
	roots := slices.Clone(c.fileRoots)
	c.mu.Unlock()
	for _, root := range roots {
		name, err := filepath.Rel(root, path)
		if err == nil && filepath.IsLocal(name) {
			return (&folder{dir: root}).get(ctx, name, offset)
		}
	}
	return nil, 0, &Error{
		Op: "get", URL: rawURL, Kind: ErrRefused,
		Advice: fmt.Sprintf("file replicas are read only below the folders of known storage elements (%s)", strings.Join(roots, ", ")),
	}
}

// Close ends the idle connections of the client's own transport. Transfers
// that are under way go on.
func (c *Client) Close() {
	c.web.client.CloseIdleConnections()
	c.web.mu.Lock()
	defer c.web.mu.Unlock()
	for _, one := range c.web.credentials {
		one.client.CloseIdleConnections()
	}
}

// FileURL returns the file:// URL of an absolute path, escaped as needed.
func FileURL(path string) string { return (&url.URL{Scheme: "file", Path: path}).String() }

// parse checks the URL of an element or a replica.
func parse(rawURL string) (*url.URL, error) {
	parsed, err := task.ParseStorageURL(rawURL)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return parsed, nil
}

func invalid(rawURL, reason string) error {
	return fmt.Errorf("%w: URL %.200q %s", ErrInvalid, rawURL, reason)
}

// validateName checks a name below an element.
func validateName(name string) error {
	if err := task.ValidateStorageName(name); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}
