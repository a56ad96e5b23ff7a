package workflow

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// pattern is a text with ranges and variables, ready to be expanded.
type pattern struct {
	parts []part
}

// part is literal text, a variable or a range.
type part struct {
	literal  string
	variable int // index of the variable, -1 for a literal or a range
	isRange  bool
	low      uint64 // of a range
	high     uint64
	width    int // digits that numbers of a range are padded to; 0: not padded
}

// strictness says what happens to braces that are not an expansion.
type strictness = bool

const (
	// inNames: every brace is an expansion or is written double.
	inNames strictness = true
	// inCommands: other braces belong to the command, e.g. to awk or ${HOME}.
	inCommands strictness = false
)

// patternError tells what is wrong with a pattern.
type patternError struct{ message, hint string }

func (e *patternError) Error() string { return e.message }

// parsePattern reads a text with the expansions {a..b} and {variable}.
func parsePattern(text string, variables []string, strict strictness) (pattern, error) {
	var parts []part
	var literal strings.Builder
	flush := func() {
		if literal.Len() > 0 {
			parts = append(parts, part{literal: literal.String(), variable: -1})
			literal.Reset()
		}
	}
	for i := 0; i < len(text); {
		c := text[i]
		if c != '{' && (c != '}' || !strict) {
			literal.WriteByte(c)
			i++
			continue
		}
		if skip, written := escaped(text, i, variables, strict); skip > 0 {
			literal.WriteString(written)
			i += skip
			continue
		}
		group, length := expansionAt(text[i:])
		found, ok, err := parseGroup(group, length, variables, strict)
		switch {
		case err != nil:
			return pattern{}, err
		case !ok || !strict && c == '{' && found.variable >= 0 && i > 0 && text[i-1] == '$':
			literal.WriteByte(c)
			i++
		default:
			flush()
			parts = append(parts, found)
			i += length
		}
	}
	flush()
	return pattern{parts}, nil
}

// escaped tells how many bytes at i are an escape, and for what. In names
// every doubled brace is one. In commands only a {{ is one that stands before
// what would expand otherwise, together with its }}: programs in awk end in
// doubled braces all the time.
func escaped(text string, i int, variables []string, strict strictness) (skip int, written string) {
	if i+1 >= len(text) || text[i+1] != text[i] {
		return 0, ""
	}
	if strict {
		return 2, text[i : i+1]
	}
	group, length := expansionAt(text[i+1:])
	if _, ok, err := parseGroup(group, length, variables, strict); !ok && err == nil {
		return 0, ""
	}
	skip = 1 + length
	if strings.HasPrefix(text[i+skip:], "}") {
		skip++
	}
	return skip, "{" + group + "}"
}

// expansionAt returns what stands between the brace at the beginning of the
// text and the next closing one, and the length with both; 0 if there is none.
func expansionAt(text string) (group string, length int) {
	if text == "" || text[0] != '{' {
		return "", 0
	}
	const longest = 128 // of an expansion; keeps the search linear
	closing := strings.IndexByte(text[:min(len(text), longest)], '}')
	if closing < 0 {
		return "", 0
	}
	return text[1:closing], closing + 1
}

// parseGroup reads the inside of braces. ok is false for what is no expansion
// and may stay as it is.
func parseGroup(group string, length int, variables []string, strict strictness) (p part, ok bool, err error) {
	if length == 0 {
		if strict {
			return p, false, &patternError{"a brace without its partner", "write {{ or }} for the brace itself"}
		}
		return p, false, nil
	}
	for i, name := range variables {
		if group == name {
			return part{variable: i}, true, nil
		}
	}
	if from, to, found := strings.Cut(group, ".."); found && allDigits(from) && allDigits(to) {
		p, err = parseRange(from, to)
		return p, err == nil, err
	}
	if !strict {
		return p, false, nil
	}
	hint := didYouMean(group, variables, "expansions are ranges {a..b} of whole numbers and variables of foreach; write {{ for a brace")
	return p, false, &patternError{fmt.Sprintf("{%s} is neither a range nor a variable here", shorten(group)), hint}
}

func allDigits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}

func parseRange(from, to string) (part, error) {
	low, lowErr := strconv.ParseUint(from, 10, 63)
	high, highErr := strconv.ParseUint(to, 10, 63)
	switch {
	case lowErr != nil || highErr != nil:
		return part{}, &patternError{fmt.Sprintf("range {%s..%s} has too large a number", shorten(from), shorten(to)), "use numbers below 2^63"}
	case high < low:
		return part{}, &patternError{fmt.Sprintf("range {%s..%s} counts down", from, to), fmt.Sprintf("write {%s..%s}", to, from)}
	}
	width := 0
	if len(from) > 1 && from[0] == '0' || len(to) > 1 && to[0] == '0' {
		width = max(len(from), len(to))
	}
	return part{variable: -1, isRange: true, low: low, high: high, width: width}, nil
}

// constant tells whether the pattern holds no variable.
func (p pattern) constant() bool {
	for _, part := range p.parts {
		if part.variable >= 0 {
			return false
		}
	}
	return true
}

// count is how many texts the pattern gives: the product of its ranges. It
// saturates instead of overflowing.
func (p pattern) count() uint64 {
	total := uint64(1)
	for _, part := range p.parts {
		if part.isRange {
			total = multiply(total, part.high-part.low+1)
		}
	}
	return total
}

func multiply(a, b uint64) uint64 {
	if a != 0 && b > math.MaxUint64/a {
		return math.MaxUint64
	}
	return a * b
}

// longest is an upper bound of the bytes of one expanded text, given that of
// the variables' values.
func (p pattern) longest(values []int) uint64 {
	total := uint64(0)
	for _, part := range p.parts {
		switch {
		case part.variable >= 0:
			total += uint64(values[part.variable])
		case part.isRange:
			total += uint64(max(part.width, len(strconv.FormatUint(part.high, 10))))
		default:
			total += uint64(len(part.literal))
		}
	}
	return total
}

// expand gives all texts for the values of the variables; the last range
// changes fastest. The caller has looked at count.
func (p pattern) expand(values []string) []string {
	if len(p.parts) == 1 && !p.parts[0].isRange {
		return []string{p.parts[0].text(0, values)}
	}
	numbers := make([]uint64, len(p.parts))
	for i, part := range p.parts {
		numbers[i] = part.low
	}
	texts := make([]string, 0, p.count())
	var b strings.Builder
	for {
		b.Reset()
		for i, part := range p.parts {
			b.WriteString(part.text(numbers[i], values))
		}
		texts = append(texts, b.String())
		if !p.advance(numbers) {
			return texts
		}
	}
}

// advance counts the ranges one on, like the wheels of a mileage counter.
func (p pattern) advance(numbers []uint64) bool {
	for i := len(p.parts) - 1; i >= 0; i-- {
		if !p.parts[i].isRange {
			continue
		}
		if numbers[i]++; numbers[i] <= p.parts[i].high {
			return true
		}
		numbers[i] = p.parts[i].low
	}
	return false
}

func (p part) text(number uint64, values []string) string {
	switch {
	case p.variable >= 0:
		return values[p.variable]
	case p.isRange:
		digits := strconv.FormatUint(number, 10)
		if missing := p.width - len(digits); missing > 0 {
			return strings.Repeat("0", missing) + digits
		}
		return digits
	}
	return p.literal
}
