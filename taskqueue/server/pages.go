package server

import (
	"encoding/base64"
	"strconv"
	"strings"
)

// Sizes of pages: a client that asks for nothing gets the first, one that
// asks for more than the second gets that.
const (
	defaultPage = 100
	maxPage     = 1000
)

func pageSize(asked int32) (int, error) {
	switch {
	case asked < 0:
		return 0, invalid("page_size %d: give 0 to %d", asked, maxPage)
	case asked == 0:
		return defaultPage, nil
	}
	return min(int(asked), maxPage), nil
}

// pageToken says where the next page of a list begins. Its kind keeps a token
// of one list from being taken for that of another.
func pageToken(kind, after string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(kind + "\x00" + after))
}

// afterToken reads a page token; the empty one is the start of the list.
func afterToken(kind, token string) (string, error) {
	if token == "" {
		return "", nil
	}
	text, err := base64.RawURLEncoding.DecodeString(token)
	after, ours := strings.CutPrefix(string(text), kind+"\x00")
	if err != nil || !ours {
		return "", invalid("page_token is not one of this list: begin without one")
	}
	return after, nil
}

// numberToken reads a page token that holds a number; 0 is the start.
func numberToken(kind, token string) (uint64, error) {
	text, err := afterToken(kind, token)
	if err != nil || text == "" {
		return 0, err
	}
	n, err := strconv.ParseUint(text, 10, 62)
	if err != nil {
		return 0, invalid("page_token is not one of this list: begin without one")
	}
	return n, nil
}
