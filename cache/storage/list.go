package storage

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/pilotage-grid/pilotage/task"
)

// maxListing bounds what is read of a list: its limit is met long before.
const maxListing = 8 << 20

// List lists a folder of an element. A folder of a file system
// that is not mounted is not there, which says nothing.
func (c *Client) List(ctx context.Context, element, folder string, limit int) ([]string, error) {
	at, err := c.Element(element)
	if err != nil {
		return nil, err
	}
	names, err := at.List(ctx, folder, limit)
	if errors.Is(err, ErrNotFound) {
		if away := Mounted(element, false); away != nil {
			return nil, away
		}
	}
	return names, err
}

// List reads a folder of the folder.
func (f *folder) List(ctx context.Context, name string, limit int) ([]string, error) {
	if err := validateName(name); err != nil {
		return nil, err
	}
	root, err := f.open(ctx, "list", name)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	// O_DIRECTORY: opening a named pipe must not wait for its writer.
	listed, err := root.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if errors.Is(err, syscall.ENOTDIR) {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, f.fail("list", name, err)
	}
	defer listed.Close()
	var names []string
	for len(names) < limit {
		entries, err := listed.ReadDir(min(limit, 1000))
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, f.fail("list", name, err)
		}
		if len(entries) == 0 {
			break
		}
		for _, entry := range entries {
			names = appendListed(names, entry.Name(), entry.IsDir())
		}
	}
	return names[:min(limit, len(names))], nil
}

func appendListed(names []string, name string, isFolder bool) []string {
	switch {
	case task.ValidateStorageName(name) != nil || strings.Contains(name, "/"):
		return names
	case isFolder:
		name += "/"
	}
	return append(names, name)
}

// methodPropfind lists a folder (RFC 4918 section 9.1).
const methodPropfind = "PROPFIND"

// whatIsListed asks which of the members are folders.
const whatIsListed = `<?xml version="1.0" encoding="utf-8"?><propfind xmlns="DAV:"><prop><resourcetype/></prop></propfind>`

// listed is one of a folder's, or the folder itself.
type listed struct {
	Href       string    `xml:"DAV: href"`
	Collection *struct{} `xml:"DAV: propstat>prop>resourcetype>collection"`
}

// List implements Element.
func (e *webElement) List(ctx context.Context, name string, limit int) ([]string, error) {
	place, err := e.url(name)
	if err != nil {
		return nil, err
	}
	place = place.JoinPath("/") // some servers redirect to it
	answer, err := e.web.do(ctx, call{
		op: "list", method: methodPropfind, url: place, header: http.Header{"Depth": {"1"}, "Content-Type": {"application/xml"}},
		body: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(whatIsListed)), nil }, size: int64(len(whatIsListed)),
		accept: func(status int) bool { return status == http.StatusMultiStatus },
	})
	var failed *Error
	if errors.As(err, &failed) && failed.Status != 0 && failed.Kind == nil {
		failed.Kind, failed.Advice = ErrUnsupported, ""
	}
	if err != nil {
		return nil, err
	}
	names, err := membersOf(place, io.LimitReader(answer.Body, maxListing), limit)
	if err != nil {
		failed = &Error{Op: "list", URL: shown(place), Status: answer.StatusCode, Kind: ErrUnreachable, Temporary: true, Err: err}
		var broken *xml.SyntaxError
		switch {
		case ended(ctx) != nil:
			err = ended(ctx)
		case errors.Is(err, ErrNotFound):
			failed.Kind, failed.Temporary, failed.Err = ErrNotFound, false, nil
			err = failed
		case errors.Is(err, ErrUnsupported), errors.As(err, &broken):
			failed.Kind, failed.Temporary = ErrUnsupported, false
			err = failed
		default:
			err = failed
		}
	}
	return names, errors.Join(err, answer.Body.Close())
}

// membersOf reads the answer to PROPFIND as far as it is needed. It names the folder
// itself, too: one that does not is an answer of another place.
func membersOf(place *url.URL, answer io.Reader, limit int) (names []string, err error) {
	folder, itself := path.Clean("/"+place.Path), false
	for decoder := xml.NewDecoder(answer); len(names) < limit; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		start, ok := token.(xml.StartElement)
		if !ok || start.Name != (xml.Name{Space: "DAV:", Local: "response"}) {
			continue
		}
		var m listed
		if err := decoder.DecodeElement(&m, &start); err != nil {
			return nil, err
		}
		at, err := place.Parse(strings.TrimSpace(m.Href))
		if err != nil {
			continue
		}
		switch name := path.Clean("/" + at.Path); {
		case name == folder && m.Collection == nil:
			return nil, ErrNotFound // it is a file
		case name == folder:
			itself = true
		case path.Dir(name) == folder:
			names = appendListed(names, path.Base(name), m.Collection != nil)
		}
	}
	if !itself && len(names) == 0 {
		return nil, fmt.Errorf("%w: its answer to %s names other places", ErrUnsupported, methodPropfind)
	}
	return names, nil
}
