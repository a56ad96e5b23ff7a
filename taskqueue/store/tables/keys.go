package tables

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
)

// key is built of parts so that keys compare as their parts do.
type key []byte

func text[S ~string](s S) key { return key(nil).text(string(s)) }

// text appends a text and its end, which sorts before every other byte of a
// longer one.
func (k key) text(s string) key {
	if strings.IndexByte(s, 0) < 0 {
		return append(append(k, s...), 0, 1)
	}
	for i := range len(s) {
		if k = append(k, s[i]); s[i] == 0 {
			k = append(k, 0xff)
		}
	}
	return append(k, 0, 1)
}

func number[N ~uint64 | ~uint32](n N) key { return key(nil).number(uint64(n)) }

func (k key) number(n uint64) key { return binary.BigEndian.AppendUint64(k, n) }

// signed appends a number that may be below zero.
func (k key) signed(n int64) key { return k.number(uint64(n) ^ 1<<63) }

// under is the span of all keys that begin with a prefix.
func under(prefix key) Span { return Span{From: prefix, Before: beyond(prefix)} }

// beyond is the first key that comes after all those with a prefix.
func beyond(prefix []byte) []byte {
	next := bytes.Clone(prefix)
	for i := len(next) - 1; i >= 0; i-- {
		if next[i]++; next[i] != 0 {
			return next[:i+1]
		}
	}
	return nil
}

// parts reads a key from its front.
type parts struct {
	rest []byte
	err  error
}

func (p *parts) number() uint64 {
	if len(p.rest) < 8 {
		p.err = fmt.Errorf("a key is %d bytes too short", 8-len(p.rest))
		return 0
	}
	n := binary.BigEndian.Uint64(p.rest)
	p.rest = p.rest[8:]
	return n
}

func (p *parts) signed() int64 { return int64(p.number() ^ 1<<63) }

func (p *parts) text() string {
	var text []byte
	for i := 0; i+1 < len(p.rest); i++ {
		if p.rest[i] != 0 {
			continue
		}
		text = append(text, p.rest[:i]...)
		if p.rest[i+1] == 1 {
			p.rest = p.rest[i+2:]
			return string(text)
		}
		text = append(text, 0)
		p.rest = p.rest[i+2:]
		i = -1
	}
	p.err = fmt.Errorf("a key has a text without end")
	return ""
}
