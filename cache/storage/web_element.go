package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

const (
	// methodMkcol makes a folder (RFC 4918 section 9.3).
	methodMkcol = "MKCOL"
	// continueFrom is the size from which the server is asked before a file is
	// sent, so that a redirect or refusal does not cost the whole upload.
	continueFrom = int64(task.MiB)
)

// webElement is an http(s):// element.
type webElement struct {
	web  *web
	base *url.URL
}

func (e *webElement) url(name string) (*url.URL, error) {
	if err := validateName(name); err != nil {
		return nil, err
	}
	return e.base.JoinPath(name), nil
}

func isOK(status int) bool { return status == http.StatusOK }

// Get implements Element.
func (e *webElement) Get(ctx context.Context, name string, offset int64) (io.ReadCloser, int64, error) {
	place, err := e.url(name)
	if err != nil {
		return nil, 0, err
	}
	return e.web.get(ctx, place, offset)
}

// get reads from an offset. A server that does not know ranges sends the file
// from its beginning; what comes before the offset is then thrown away.
func (w *web) get(ctx context.Context, place *url.URL, offset int64) (io.ReadCloser, int64, error) {
	fail := func(err error) error {
		return &Error{Op: "get", URL: shown(place), Kind: ErrUnreachable, Temporary: true, Err: err, Advice: "read on from where it broke off, or from another source"}
	}
	if offset < 0 {
		return nil, 0, &Error{Op: "get", URL: shown(place), Kind: ErrOffset}
	}
	header := http.Header{"Accept-Encoding": {"identity"}}
	if offset > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
	}
	answer, err := w.do(ctx, call{op: "get", method: http.MethodGet, url: place, header: header, accept: func(status int) bool {
		return isOK(status) || offset > 0 && (status == http.StatusPartialContent || status == http.StatusRequestedRangeNotSatisfiable)
	}})
	if err != nil {
		return nil, 0, err
	}
	size, err := expected(answer, offset)
	if err == nil && size == offset && answer.StatusCode == http.StatusRequestedRangeNotSatisfiable {
		return http.NoBody, size, answer.Body.Close()
	}
	if err == nil && answer.Header.Get("Content-Encoding") != "" && answer.Header.Get("Content-Encoding") != "identity" {
		err = fmt.Errorf("it sends the encoding %q, which was not asked for", answer.Header.Get("Content-Encoding"))
	}
	if err == nil && isOK(answer.StatusCode) && offset > 0 {
		_, err = io.CopyN(io.Discard, answer.Body, offset)
	}
	if err != nil {
		failed := &Error{Op: "get", URL: shown(place), Status: answer.StatusCode, Err: err}
		if errors.Is(err, ErrOffset) {
			failed.Kind, failed.Err = ErrOffset, nil
		}
		_ = answer.Body.Close()
		return nil, 0, failed
	}
	content := &bounded{reader: answer.Body, closer: answer.Body.Close, left: size - offset, known: size >= 0, fail: fail, stop: func() error { return ended(ctx) }}
	if !content.known {
		content.left = int64(w.opts.MaxUnsized)
	}
	return content, size, nil
}

// expected returns the size of the whole file, -1 if the answer does not say.
func expected(answer *http.Response, offset int64) (int64, error) {
	size := int64(-1)
	switch answer.StatusCode {
	case http.StatusOK:
		size = answer.ContentLength
	case http.StatusPartialContent:
		from, total, err := parseContentRange(answer.Header.Get("Content-Range"))
		if err != nil {
			return 0, err
		}
		if from != offset || total >= 0 && answer.ContentLength >= 0 && answer.ContentLength != total-offset {
			return 0, fmt.Errorf("it sends %d bytes from %d of %d, asked for was all from %d", answer.ContentLength, from, total, offset)
		}
		size = total
		if size < 0 && answer.ContentLength >= 0 {
			size = offset + answer.ContentLength
		}
	case http.StatusRequestedRangeNotSatisfiable:
		total, err := strconv.ParseInt(strings.TrimPrefix(answer.Header.Get("Content-Range"), "bytes */"), 10, 64)
		if err != nil || total != offset {
			return 0, ErrOffset
		}
		return total, nil
	}
	if size >= 0 && offset > size {
		return 0, ErrOffset
	}
	return size, nil
}

// parseContentRange reads "bytes 5-9/10" or "bytes 5-9/*" (RFC 9110 section
// 14.4); total is -1 for the latter.
func parseContentRange(text string) (from, total int64, err error) {
	span, whole, found := strings.Cut(strings.TrimPrefix(text, "bytes "), "/")
	first, last, dashed := strings.Cut(span, "-")
	if !found || !dashed || !strings.HasPrefix(text, "bytes ") {
		return 0, 0, fmt.Errorf("its Content-Range is %.100q", text)
	}
	from, err1 := strconv.ParseInt(first, 10, 64)
	to, err2 := strconv.ParseInt(last, 10, 64)
	total = -1
	var err3 error
	if whole != "*" {
		total, err3 = strconv.ParseInt(whole, 10, 64)
	}
	if errors.Join(err1, err2, err3) != nil || from < 0 || to < from || whole != "*" && total <= to {
		return 0, 0, fmt.Errorf("its Content-Range is %.100q", text)
	}
	return from, total, nil
}

// Head implements Element.
func (e *webElement) Head(ctx context.Context, name string) (Info, error) {
	place, err := e.url(name)
	if err != nil {
		return Info{}, err
	}
	header := http.Header{"Accept-Encoding": {"identity"}}
	answer, err := e.web.do(ctx, call{op: "head", method: http.MethodHead, url: place, header: header, accept: isOK})
	if err != nil {
		return Info{}, err
	}
	info := Info{URL: shown(place), Size: answer.ContentLength}
	if modified, err := http.ParseTime(answer.Header.Get("Last-Modified")); err == nil {
		info.Modified = modified.In(time.UTC)
	}
	return info, answer.Body.Close()
}

// Delete implements Element.
func (e *webElement) Delete(ctx context.Context, name string) error {
	place, err := e.url(name)
	if err != nil {
		return err
	}
	answer, err := e.web.do(ctx, call{op: "delete", method: http.MethodDelete, url: place, accept: func(status int) bool {
		return isOK(status) || status == http.StatusNoContent || status == http.StatusAccepted
	}})
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

// Put implements Element. The folders are made only when the server misses
// them, since mostly they exist. What the server then has is looked up, as some say
// that they have stored what they have not.
func (e *webElement) Put(ctx context.Context, name string, size int64, content io.ReadSeeker) (string, error) {
	place, err := e.url(name)
	if err != nil {
		return "", err
	}
	start, err := checkSize(content, size)
	if err != nil {
		return "", &Error{Op: "put", URL: shown(place), Kind: ErrSize, Err: err}
	}
	source := &rewound{content: content, start: start, size: size}
	defer source.stop()
	err = e.upload(ctx, place, source)
	var failed *Error
	if errors.As(err, &failed) && (failed.Status == http.StatusConflict || failed.Status == http.StatusNotFound) {
		if err := e.makeFolder(ctx, place.JoinPath("..", "/")); err != nil {
			return "", err
		}
		err = e.upload(ctx, place, source)
	}
	if err != nil {
		return "", err
	}
	info, err := e.Head(ctx, name)
	if err != nil {
		return "", fmt.Errorf("look up after put: %w", err)
	}
	if info.Size >= 0 && info.Size != size {
		return "", &Error{Op: "put", URL: shown(place), Kind: ErrSize, Temporary: true, Err: fmt.Errorf("the server has %d bytes, %d were sent", info.Size, size)}
	}
	return shown(place), nil
}

func (e *webElement) upload(ctx context.Context, place *url.URL, source *rewound) error {
	header := http.Header{"Content-Type": {"application/octet-stream"}}
	if source.size >= continueFrom {
		header.Set("Expect", "100-continue")
	}
	answer, err := e.web.do(ctx, call{op: "put", method: http.MethodPut, url: place, header: header, body: source.open, size: source.size, accept: func(status int) bool {
		return isOK(status) || status == http.StatusCreated || status == http.StatusNoContent
	}})
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

// makeFolder makes a folder, and those above it as far as the server says that
// they are missing. The URL ends with a slash, on which some servers insist.
func (e *webElement) makeFolder(ctx context.Context, place *url.URL) error {
	err := e.makeOne(ctx, place)
	var failed *Error
	missing := errors.As(err, &failed) && (failed.Status == http.StatusConflict || failed.Status == http.StatusNotFound)
	if !missing || place.Path == "/" || place.Path == "" {
		return err
	}
	if err := e.makeFolder(ctx, place.JoinPath("..", "/")); err != nil {
		return err
	}
	return e.makeOne(ctx, place)
}

func (e *webElement) makeOne(ctx context.Context, place *url.URL) error {
	answer, err := e.web.do(ctx, call{op: "make folder", method: methodMkcol, url: place, accept: func(status int) bool {
		switch status {
		case http.StatusCreated, http.StatusOK, http.StatusNoContent:
			return true
		case http.StatusMethodNotAllowed, http.StatusMovedPermanently, http.StatusPermanentRedirect: // it exists
			return true
		}
		return false
	}})
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

// rewound gives one content to several tries. A transport may still be reading
// for a try that has been given up; its body is cut off before the next begins.
type rewound struct {
	mu      sync.Mutex
	content io.ReadSeeker
	start   int64
	size    int64
	current *rewoundBody
}

func (r *rewound) open() (io.ReadCloser, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.content.Seek(r.start, io.SeekStart); err != nil {
		return nil, err
	}
	r.current = &rewoundBody{from: r, left: r.size}
	return r.current, nil
}

func (r *rewound) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current = nil
}

type rewoundBody struct {
	from *rewound
	left int64
}

var errGivenUp = errors.New("this try was given up")

func (b *rewoundBody) Read(p []byte) (int, error) {
	b.from.mu.Lock()
	defer b.from.mu.Unlock()
	if b.from.current != b {
		return 0, errGivenUp
	}
	if b.left == 0 {
		return 0, io.EOF
	}
	n, err := b.from.content.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	if errors.Is(err, io.EOF) && b.left > 0 {
		err = fmt.Errorf("%w: it ends %d bytes early", ErrSize, b.left)
	}
	return n, err
}

// Close cuts this body off, for whoever may read it late.
func (b *rewoundBody) Close() error {
	b.from.mu.Lock()
	defer b.from.mu.Unlock()
	if b.from.current == b {
		b.from.current = nil
	}
	return nil
}
