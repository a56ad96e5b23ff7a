package task

import (
	"strings"
	"unicode"
)

// mostBrief bounds a reason in bytes, as everything that other pilots say.
const mostBrief = 300

// Brief makes a reason fit for one line of a table.
func Brief(why string) string {
	clean := strings.Join(strings.FieldsFunc(strings.ToValidUTF8(why, "?"), func(r rune) bool { return unicode.IsControl(r) || r == ' ' }), " ")
	if len(clean) > mostBrief {
		clean = strings.ToValidUTF8(clean[:mostBrief-3], "") + "..."
	}
	return clean
}
