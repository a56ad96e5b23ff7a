package server

import (
	"encoding/base64"
	"sort"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
)

// Sizes of pages: a client that asks for nothing gets the first, one that
// asks for more than the second gets that.
const (
	defaultPage = 100
	maxPage     = 1000
	// answerBytes ends a page whose entries are large: every gRPC client reads 4 MiB.
	answerBytes = 3 << 20
	// loadedAtOnce is how many tasks with descriptions or files are loaded for a page at a
	// time: one may have megabytes.
	loadedAtOnce = 32
)

// pageRoom is what still goes on a page: so many entries (0 is any number), and
// answerBytes.
type pageRoom struct{ entries, filled, bytes int }

// takes puts an entry on the page if there is room; there always is for the first.
func (r *pageRoom) takes(entry proto.Message) bool {
	size := proto.Size(entry)
	if r.filled > 0 && (r.filled == r.entries || r.bytes+size > answerBytes) {
		return false
	}
	r.filled, r.bytes = r.filled+1, r.bytes+size
	return true
}

// pageOf returns the page that a request asks for of a list that is at hand, sorted by its
// keys, which differ. A page of no given size ends with its bytes.
func pageOf[T any, P proto.Message](kind string, in pageRequest, list []T, key func(*T) string, entry func(*T) P) (page []P, next string, err error) {
	size, after, err := pageAsked(kind, in)
	if err != nil {
		return nil, "", err
	}
	if in.GetPageSize() == 0 {
		size = 0
	}
	first := sort.Search(len(list), func(i int) bool { return key(&list[i]) > after })
	for room, i := (pageRoom{entries: size}), first; i < len(list); i++ {
		made := entry(&list[i])
		if !room.takes(made) {
			return page, pageToken(kind, after), nil
		}
		page, after = append(page, made), key(&list[i])
	}
	return page, "", nil
}

// pageRequest asks for a page of a list.
type pageRequest interface {
	GetPageSize() int32
	GetPageToken() string
}

// pageAsked reads how many entries a page is to have, and behind what it begins.
func pageAsked(kind string, in pageRequest) (size int, after string, err error) {
	switch asked := in.GetPageSize(); {
	case asked < 0:
		return 0, "", invalid("page_size %d: give 0 to %d", asked, maxPage)
	case asked == 0:
		size = defaultPage
	default:
		size = min(int(asked), maxPage)
	}
	after, err = afterToken(kind, in.GetPageToken())
	return size, after, err
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
		return "", errPageToken()
	}
	return after, nil
}

// pageFrom is pageAsked of a list whose pages begin behind a number; 0 is the start.
func pageFrom(kind string, in pageRequest) (size int, from uint64, err error) {
	size, after, err := pageAsked(kind, in)
	if err != nil || after == "" {
		return size, 0, err
	}
	if from, err = strconv.ParseUint(after, 10, 62); err != nil {
		err = errPageToken()
	}
	return size, from, err
}

func errPageToken() error { return invalid("page_token is not one of this list: begin without one") }
