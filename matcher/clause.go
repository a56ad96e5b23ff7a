package matcher

import "strings"

// splitClauses cuts a requirement at its top-level && and keeps the text of
// each part as written. An expression whose top level is something else is
// one clause. It only looks for cutting points: the caller compiles the parts
// and falls back to the whole if one of them is no expression.
func splitClauses(text string) []string {
	text = strings.TrimSpace(text)
	cuts, whole := topLevel(text)
	if whole {
		return splitClauses(text[1 : len(text)-1])
	}
	if len(cuts) == 0 {
		return []string{text}
	}
	var clauses []string
	start := 0
	for _, cut := range append(cuts, len(text)) {
		clauses = append(clauses, splitClauses(text[start:cut])...)
		start = cut + len("&&")
	}
	return clauses
}

// topLevel finds the positions of && outside of brackets and literals, none
// if a weaker operator (|| or ?:) stands at the same level; whole tells that
// one pair of parentheses encloses everything.
func topLevel(text string) (cuts []int, whole bool) {
	depth, weaker := 0, false
	whole = strings.HasPrefix(text, "(")
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '"' || c == '\'':
			i = skipLiteral(text, i)
			continue
		case strings.HasPrefix(text[i:], "//"):
			if end := strings.IndexByte(text[i:], '\n'); end >= 0 {
				i += end
			} else {
				i = len(text)
			}
			continue
		case strings.IndexByte("([{", c) >= 0:
			depth++
		case strings.IndexByte(")]}", c) >= 0:
			depth--
			whole = whole && (depth > 0 || i == len(text)-1)
		case depth == 0 && (c == '?' || strings.HasPrefix(text[i:], "||")):
			weaker = true
		case depth == 0 && strings.HasPrefix(text[i:], "&&"):
			cuts = append(cuts, i)
			i++
		}
		i++
	}
	if weaker || depth != 0 {
		cuts = nil
	}
	return cuts, whole && depth == 0 && len(text) > 2
}

// skipLiteral returns the position after the string literal that opens at i.
func skipLiteral(text string, i int) int {
	raw := i > 0 && (text[i-1] == 'r' || text[i-1] == 'R')
	quote := text[i : i+1]
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(text[i:], triple) {
		quote = triple
	}
	for i += len(quote); i < len(text); i++ {
		switch {
		case text[i] == '\\' && !raw:
			i++
		case strings.HasPrefix(text[i:], quote):
			return i + len(quote)
		}
	}
	return len(text)
}
