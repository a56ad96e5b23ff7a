package storagetest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestServer goes through what clients rely on, without any client of ours.
func TestServer(t *testing.T) {
	server := NewServer()
	for _, step := range []struct {
		method, path, body, rangeHeader string
		status                          int
		answer                          string
	}{
		{"PUT", "/a/x", "hello", "", 409, ""},
		{"MKCOL", "/a/b/", "", "", 409, ""},
		{"MKCOL", "/a", "", "", 409, ""},
		{"MKCOL", "/a/", "", "", 201, ""},
		{"MKCOL", "/a/", "", "", 405, ""},
		{"PUT", "/a/x", "hello", "", 201, ""},
		{"PUT", "/a/x", "howdy", "", 204, ""},
		{"PUT", "/a", "x", "", 405, ""},
		{"GET", "/a/x", "", "", 200, "howdy"},
		{"GET", "/a/x", "", "bytes=2-", 206, "wdy"},
		{"GET", "/a/x", "", "bytes=5-", 416, ""},
		{"HEAD", "/a/x", "", "", 200, ""},
		{"GET", "/a", "", "", 404, ""},
		{"DELETE", "/a/x", "", "", 204, ""},
		{"DELETE", "/a/x", "", "", 404, ""},
		{"PATCH", "/a/x", "", "", 405, ""},
	} {
		request := httptest.NewRequest(step.method, step.path, strings.NewReader(step.body))
		if step.rangeHeader != "" {
			request.Header.Set("Range", step.rangeHeader)
		}
		recorder := httptest.NewRecorder()
		server.ServeHTTP(recorder, request)
		if recorder.Code != step.status || step.answer != "" && recorder.Body.String() != step.answer {
			t.Errorf("%s %s %s: %d %q, want %d %q", step.method, step.path, step.rangeHeader, recorder.Code, recorder.Body, step.status, step.answer)
		}
	}
}

// TestServerKeepsNoHalfFile: the client announces more than it sends.
func TestServerKeepsNoHalfFile(t *testing.T) {
	server := NewServer()
	request := httptest.NewRequest(http.MethodPut, "/x", io.MultiReader(strings.NewReader("half"), brokenPipe{}))
	server.ServeHTTP(httptest.NewRecorder(), request)
	if files := server.Files(); len(files) != 0 {
		t.Errorf("it kept %q", files)
	}
}

type brokenPipe struct{}

func (brokenPipe) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
