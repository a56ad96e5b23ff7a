package workflow

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/token"
)

type nodeKind uint8

const (
	emptyNode nodeKind = iota // null, or nothing written
	textNode                  // any scalar, as it was written
	mapNode
	listNode
)

func (k nodeKind) String() string {
	return [...]string{"nothing", "a single value", "a map", "a list"}[k]
}

// node is a piece of YAML with its place.
type node struct {
	kind    nodeKind
	at      Position
	text    string
	flow    bool // a map or list in braces or brackets
	entries []nodeEntry
	items   []*node
}

type nodeEntry struct {
	key   *node // always a textNode
	value *node
}

// treeBuilder builds nodes from words: block and flow maps and lists and
// scalars, all that a workflow uses. The library's own parser is not used: it
// needs time that grows with the square of the number of keys, recurses as
// deep as the input says and unfolds aliases.
type treeBuilder struct {
	words []word
	next  int
}

// end is what peek returns behind the last word.
var end = word{kind: token.UnknownType}

func (b *treeBuilder) peek(ahead int) word {
	if b.next+ahead < len(b.words) {
		return b.words[b.next+ahead]
	}
	return end
}

func (b *treeBuilder) atEnd() bool { return b.next >= len(b.words) }

func (b *treeBuilder) take() word {
	w := b.peek(0)
	b.next++
	return w
}

// build reads the one document of a file.
func (b *treeBuilder) build() (*node, error) {
	if b.peek(0).kind == token.DocumentHeaderType {
		b.take()
	}
	if b.atEnd() {
		return &node{at: Position{1, 1}}, nil
	}
	root, err := b.block(1)
	if err != nil {
		return nil, err
	}
	if b.peek(0).kind == token.DocumentEndType {
		b.take()
	}
	if rest := b.peek(0); !b.atEnd() {
		if rest.kind == token.DocumentHeaderType || rest.kind == token.DocumentEndType {
			return nil, syntaxAt(rest.at, "put each workflow into a file of its own", "a second document in the file")
		}
		return nil, unexpected(rest)
	}
	return root, nil
}

func unexpected(w word) error {
	hint := "check the indentation, and quote text that holds : # { } [ ] or ,"
	switch w.kind {
	case token.MappingStartType, token.MappingEndType:
		hint = `quote names with braces: "part.{00..19}.fa"`
	case token.UnknownType:
		return syntaxAt(w.at, hint, "the file ends too early")
	}
	return syntaxAt(w.at, hint, "%q is not expected here", w.text)
}

func isScalar(kind token.Type) bool {
	switch kind {
	case token.StringType, token.SingleQuoteType, token.DoubleQuoteType, token.BoolType,
		token.NullType, token.ImplicitNullType, token.InfinityType, token.NanType, token.FloatType,
		token.IntegerType, token.BinaryIntegerType, token.OctetIntegerType, token.HexIntegerType:
		return true
	}
	return false
}

func scalar(w word) *node {
	if w.kind == token.NullType || w.kind == token.ImplicitNullType {
		return &node{kind: emptyNode, at: w.at, text: w.text}
	}
	return &node{kind: textNode, at: w.at, text: w.text}
}

// block reads the value that begins at the next word.
func (b *treeBuilder) block(depth int) (*node, error) {
	w := b.peek(0)
	if depth > maxDepth {
		return nil, tooDeep(w)
	}
	switch {
	case w.kind == token.SequenceEntryType:
		return b.blockList(w.at.Column, depth)
	case w.kind == token.SequenceStartType || w.kind == token.MappingStartType:
		return b.flow(depth)
	case w.kind == token.LiteralType || w.kind == token.FoldedType:
		return b.literal()
	case !isScalar(w.kind):
		return nil, unexpected(w)
	case b.keyFollows():
		return b.blockMap(w.at.Column, depth)
	}
	return scalar(b.take()), nil
}

func tooDeep(w word) error {
	return syntaxAt(w.at, "a workflow needs 4 levels", "more than %d maps and lists within each other", maxDepth)
}

// keyFollows tells whether the next word is the key of a block map.
func (b *treeBuilder) keyFollows() bool {
	colon := b.peek(1)
	return colon.kind == token.MappingValueType && colon.at.Line == b.peek(0).at.Line
}

// literal reads text after | or >.
func (b *treeBuilder) literal() (*node, error) {
	sign := b.take()
	content := b.peek(0)
	if content.kind != token.StringType || content.at.Line == sign.at.Line {
		return nil, syntaxAt(sign.at, "write the text on the following lines, indented", "no text follows %q", sign.text)
	}
	b.take()
	return &node{kind: textNode, at: sign.at, text: content.text}, nil
}

func (b *treeBuilder) blockList(column, depth int) (*node, error) {
	list := &node{kind: listNode, at: b.peek(0).at}
	for !b.atEnd() && b.peek(0).kind == token.SequenceEntryType && b.peek(0).at.Column == column {
		dash := b.take()
		item := &node{at: dash.at}
		if w := b.peek(0); !b.atEnd() && !endsDocument(w) && (w.at.Line == dash.at.Line || w.at.Column > column) {
			var err error
			if item, err = b.block(depth + 1); err != nil {
				return nil, err
			}
		}
		list.items = append(list.items, item)
	}
	return list, b.outdented(column)
}

func endsDocument(w word) bool {
	return w.kind == token.DocumentEndType || w.kind == token.DocumentHeaderType
}

// outdented checks that a block ended because the next line is less indented.
func (b *treeBuilder) outdented(column int) error {
	if w := b.peek(0); !b.atEnd() && !endsDocument(w) && w.at.Column > column {
		return unexpected(w)
	}
	return nil
}

func (b *treeBuilder) blockMap(column, depth int) (*node, error) {
	result := &node{kind: mapNode, at: b.peek(0).at}
	seen := make(map[string]Position)
	for !b.atEnd() && !endsDocument(b.peek(0)) && b.peek(0).at.Column == column {
		w := b.peek(0)
		if w.kind == token.SequenceEntryType || !isScalar(w.kind) {
			return nil, unexpected(w)
		}
		if !b.keyFollows() {
			return nil, syntaxAt(w.at, `write "key: value"`, "%q is not followed by a colon", shorten(w.text))
		}
		if err := noteKey(seen, w); err != nil {
			return nil, err
		}
		b.take()
		value, err := b.blockMapValue(b.take(), column, depth)
		if err != nil {
			return nil, err
		}
		result.entries = append(result.entries, nodeEntry{&node{kind: textNode, at: w.at, text: w.text}, value})
	}
	return result, b.outdented(column)
}

func noteKey(seen map[string]Position, key word) error {
	if first, double := seen[key.text]; double {
		return syntaxAt(key.at, "remove or rename one of the two", "key %q is already given at line %d", shorten(key.text), first.Line)
	}
	seen[key.text] = key.at
	return nil
}

// blockMapValue reads what stands behind a colon.
func (b *treeBuilder) blockMapValue(colon word, column, depth int) (*node, error) {
	w := b.peek(0)
	switch {
	case b.atEnd() || endsDocument(w):
		return &node{at: colon.at}, nil
	case w.at.Line > colon.at.Line:
		if w.at.Column > column || w.at.Column == column && w.kind == token.SequenceEntryType {
			return b.block(depth + 1)
		}
		return &node{at: colon.at}, nil
	case w.kind == token.SequenceEntryType:
		return nil, syntaxAt(w.at, "begin the list on the next line, or write [a, b]", "a list cannot begin behind a colon")
	case isScalar(w.kind) && b.keyFollows():
		return nil, syntaxAt(b.peek(1).at, "quote the text, or begin a map on the next line", "a second colon in one line")
	}
	value, err := b.block(depth + 1)
	if err != nil {
		return nil, err
	}
	last := b.words[b.next-1]
	if after := b.peek(0); !b.atEnd() && after.at.Line == last.at.Line && !endsDocument(after) {
		return nil, unexpected(after)
	}
	return value, nil
}

// flow reads a map in braces or a list in brackets.
func (b *treeBuilder) flow(depth int) (*node, error) {
	w := b.peek(0)
	switch {
	case depth > maxDepth:
		return nil, tooDeep(w)
	case w.kind == token.SequenceStartType:
		return b.flowList(depth)
	case w.kind == token.MappingStartType:
		return b.flowMap(depth)
	case isScalar(w.kind):
		return scalar(b.takeFlowScalar()), nil
	}
	return nil, unexpected(w)
}

// takeFlowScalar takes a scalar within braces or brackets. The scanner splits
// plain text there at every colon; YAML does so only where a blank or a sign
// follows, so "https://x" and "10:20" are put together again.
func (b *treeBuilder) takeFlowScalar() word {
	w := b.take()
	last := w
	for !isQuoted(last.kind) {
		colon, after := b.peek(0), b.peek(1)
		behind := Position{last.at.Line, last.at.Column + utf8.RuneCountInString(last.text)}
		if colon.kind != token.MappingValueType || colon.at != behind ||
			!isScalar(after.kind) || isQuoted(after.kind) || after.at != (Position{colon.at.Line, colon.at.Column + 1}) {
			break
		}
		b.next += 2
		w.kind, w.text, last = token.StringType, w.text+":"+after.text, after
	}
	return w
}

func isQuoted(kind token.Type) bool {
	return kind == token.SingleQuoteType || kind == token.DoubleQuoteType
}

func (b *treeBuilder) flowList(depth int) (*node, error) {
	open := b.take()
	list := &node{kind: listNode, at: open.at, flow: true}
	for b.peek(0).kind != token.SequenceEndType {
		if b.atEnd() {
			return nil, unclosed(open)
		}
		item, err := b.flow(depth + 1)
		if err != nil {
			return nil, err
		}
		list.items = append(list.items, item)
		if err := b.separator(open, token.SequenceEndType); err != nil {
			return nil, err
		}
	}
	b.take()
	return list, nil
}

func (b *treeBuilder) flowMap(depth int) (*node, error) {
	open := b.take()
	result := &node{kind: mapNode, at: open.at, flow: true}
	seen := make(map[string]Position)
	for b.peek(0).kind != token.MappingEndType {
		key := b.peek(0)
		switch {
		case b.atEnd():
			return nil, unclosed(open)
		case !isScalar(key.kind):
			return nil, unexpected(key)
		}
		key = b.takeFlowScalar()
		value := &node{at: key.at}
		before, after, swallowed := strings.Cut(key.text, ": ")
		if swallowed = swallowed && !isQuoted(key.kind); swallowed {
			// "{vo:x: y}": the scanner took the first colon for the separator.
			key.text = before
			value = &node{kind: textNode, at: key.at, text: strings.TrimSpace(after)}
		}
		if err := noteKey(seen, key); err != nil {
			return nil, err
		}
		if !swallowed && b.peek(0).kind == token.MappingValueType {
			b.take()
			if kind := b.peek(0).kind; kind != token.CollectEntryType && kind != token.MappingEndType {
				var err error
				if value, err = b.flow(depth + 1); err != nil {
					return nil, err
				}
			}
		}
		result.entries = append(result.entries, nodeEntry{&node{kind: textNode, at: key.at, text: key.text}, value})
		if err := b.separator(open, token.MappingEndType); err != nil {
			return nil, err
		}
	}
	b.take()
	return result, nil
}

// separator takes the comma behind an item unless the closing sign follows.
func (b *treeBuilder) separator(open word, closing token.Type) error {
	switch w := b.peek(0); {
	case b.atEnd():
		return unclosed(open)
	case w.kind == closing:
		return nil
	case w.kind == token.CollectEntryType:
		b.take()
		return nil
	default:
		return unexpected(w)
	}
}

func unclosed(open word) error {
	return syntaxAt(open.at, "", "%q is never closed", open.text)
}

// shorten cuts a text for use in a message.
func shorten(text string) string {
	const most = 60
	if len(text) <= most {
		return text
	}
	return fmt.Sprintf("%.*s...", most, text)
}
