package workflow

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/pilotage-grid/pilotage/task"
)

// decoder fills the types of file.go from nodes, guided by the tags of their
// fields.
type decoder struct{ faults *faults }

// decodable is implemented by the kinds of values that are not plain structs.
type decodable interface {
	decode(d *decoder, where string, n *yaml.Node, tag reflect.StructTag)
}

// structure fills a struct. where says in errors what it describes, for
// example "task index"; it is empty for the file itself.
func (d *decoder) structure(where string, n *yaml.Node, target any) {
	if kindOf(n) == emptyNode {
		n = &yaml.Node{Kind: yaml.MappingNode, Line: n.Line, Column: n.Column}
	}
	if kindOf(n) != mapNode {
		d.faults.add(placeOf(n), "write keys and values", "%s must be a map of keys, here is %s", orFile(where), kindOf(n))
		return
	}
	fields := fieldsOf(reflect.ValueOf(target).Elem())
	known := make([]string, 0, len(fields))
	byKey := make(map[string]field, len(fields))
	for _, f := range fields {
		key := f.tag.Get("key")
		known = append(known, key)
		byKey[key] = f
	}
	given := make(map[string]bool, len(n.Content)/2)
	for key, value := range entries(n) {
		f, ok := byKey[key.Value]
		if !ok {
			d.faults.add(placeOf(key), didYouMean(key.Value, known, "known keys are "+strings.Join(known, ", ")),
				"%sunknown key %q", prefix(where), shorten(key.Value))
			continue
		}
		given[key.Value] = kindOf(value) != emptyNode
		d.value(prefix(where)+key.Value, value, f)
	}
	for _, f := range fields {
		if key := f.tag.Get("key"); f.tag.Get("required") != "" && !given[key] {
			example := key + ": ..."
			if constant := f.tag.Get("const"); constant != "" {
				example = key + ": " + constant
			}
			d.faults.add(placeOf(n), "add "+strconv.Quote(example), "%sthe key %q is missing", prefix(where), key)
		}
	}
}

func prefix(where string) string {
	if where == "" {
		return ""
	}
	return where + ": "
}

func orFile(where string) string {
	if where == "" {
		return "a workflow"
	}
	return where
}

type field struct {
	value reflect.Value
	tag   reflect.StructTag
}

// fieldsOf lists the fields with a key, those of embedded structs last.
func fieldsOf(structure reflect.Value) (fields []field) {
	for i := range structure.NumField() {
		description := structure.Type().Field(i)
		switch {
		case description.Anonymous:
			fields = append(fields, fieldsOf(structure.Field(i))...)
		case description.Tag.Get("key") != "":
			fields = append(fields, field{structure.Field(i), description.Tag})
		}
	}
	return fields
}

func (d *decoder) value(where string, n *yaml.Node, f field) {
	target := f.value.Addr().Interface()
	if special, ok := target.(decodable); ok {
		if kindOf(n) != emptyNode {
			special.decode(d, where, n, f.tag)
		}
		return
	}
	d.structure(where, n, target)
}

const unquotedRange = `quote text that begins with a brace: "{00..19}"`

// text returns the text of a scalar, or complains.
func (d *decoder) text(where, wanted string, n *yaml.Node) (string, bool) {
	if kindOf(n) == textNode {
		return n.Value, true
	}
	hint := ""
	switch {
	case kindOf(n) == emptyNode:
		hint = `write "" if it is meant to be empty`
	case kindOf(n) == mapNode && inBraces(n):
		hint = unquotedRange
	}
	d.faults.add(placeOf(n), hint, "%s must be %s, here is %s", where, wanted, kindOf(n))
	return "", false
}

func (v *Value[T]) decode(d *decoder, where string, n *yaml.Node, tag reflect.StructTag) {
	var ok bool
	switch target := any(&v.Value).(type) {
	case *string:
		if *target, ok = d.text(where, "text", n); ok {
			ok = d.checkText(where, *target, placeOf(n), tag)
		}
	case *int:
		ok = readBounded(d, where, "a whole number", n, tag, target, strconv.Atoi)
	case *time.Duration:
		ok = readBounded(d, where, "a duration such as 90s, 10m or 1h30m", n, tag, target, time.ParseDuration)
	case *task.Bytes:
		ok = readBounded(d, where, "a size such as 200MiB or 1GB", n, tag, target, task.ParseBytes)
	case *bool:
		var text string
		if text, ok = d.text(where, "true or false", n); ok {
			*target, ok = text == "true", text == "true" || text == "false"
			if !ok {
				d.faults.add(placeOf(n), "write true or false", "%s: %q is neither true nor false", where, shorten(text))
			}
		}
	}
	if ok {
		v.Set, v.At = true, placeOf(n)
	}
}

// readBounded reads a number, duration or size between the tags min and max.
func readBounded[T int | time.Duration | task.Bytes](
	d *decoder, where, wanted string, n *yaml.Node, tag reflect.StructTag, target *T, parse func(string) (T, error),
) bool {
	text, ok := d.text(where, wanted, n)
	if !ok {
		return false
	}
	value, err := parse(text)
	if err != nil {
		d.faults.add(placeOf(n), "", "%s: %q is not %s", where, shorten(text), wanted)
		return false
	}
	low, lowErr := parse(tag.Get("min"))
	high, highErr := parse(tag.Get("max"))
	if lowErr == nil && value < low || highErr == nil && value > high {
		d.faults.add(placeOf(n), "", "%s is %s: give %s to %s", where, shorten(text), tag.Get("min"), tag.Get("max"))
		return false
	}
	*target = value
	return true
}

// checkText applies the tags const, oneof, form and max to a text.
func (d *decoder) checkText(where, text string, at Position, tag reflect.StructTag) bool {
	if constant := tag.Get("const"); constant != "" && text != constant {
		d.faults.add(at, "write "+constant, "%s is %q: this program reads %s", where, shorten(text), constant)
		return false
	}
	if words := strings.Fields(tag.Get("oneof")); len(words) > 0 && text != "" && !slices.Contains(words, text) {
		d.faults.add(at, "write "+strings.Join(words, " or "), "%s is %q", where, shorten(text))
		return false
	}
	if most, err := task.ParseBytes(tag.Get("max")); err == nil && task.Bytes(len(text)) > most {
		d.faults.add(at, "put long commands into a file and list it under files", "%s has %d bytes: at most %s", where, len(text), most)
		return false
	}
	switch tag.Get("form") {
	case "name":
		if !task.ValidName(text) || strings.Contains(text, "[") {
			d.faults.add(at, "use letters, digits and . _ + = : @ - (at most 200), first not a sign", "%s %q is not a name", where, shorten(text))
			return false
		}
	case "adler32":
		if _, err := strconv.ParseUint(text, 16, 32); err != nil || len(text) != 8 {
			d.faults.add(at, "quote it if it is all digits", "%s: %q is not 8 hex digits", where, shorten(text))
			return false
		}
	case "digest":
		if _, err := task.ParseDigest(text); err != nil {
			d.faults.add(at, "", "%s: %q is not 64 hex digits", where, shorten(text))
			return false
		}
	}
	return true
}

func (m *Map[T]) decode(d *decoder, where string, n *yaml.Node, tag reflect.StructTag) {
	if kindOf(n) != mapNode {
		d.faults.add(placeOf(n), "write \"key: value\" lines", "%s must be a map, here is %s", where, kindOf(n))
		return
	}
	m.Set, m.At = true, placeOf(n)
	m.Entries = make([]Entry[T], 0, len(n.Content)/2)
	for key, value := range entries(n) {
		m.Entries = append(m.Entries, Entry[T]{Key: Text{key.Value, true, placeOf(key)}})
		name := tag.Get("noun") + " " + shorten(key.Value)
		if before, _, nested := strings.Cut(where, ": "); nested {
			name = before + ": " + name
		}
		target := reflect.ValueOf(&m.Entries[len(m.Entries)-1].Value)
		if special, ok := target.Interface().(decodable); ok {
			special.decode(d, name, value, "")
			continue
		}
		d.structure(name, value, target.Interface())
	}
}

// decode of a list that is the value of a key of the format takes nothing but
// a list: "argv: ls -l" would be a program called "ls -l". The values of a
// variable may also be a single text, which is then most often a range.
func (l *List) decode(d *decoder, where string, n *yaml.Node, tag reflect.StructTag) {
	items := n.Content
	if kindOf(n) != listNode {
		if tag.Get("key") != "" || kindOf(n) != textNode {
			hint := "write a list: [a, b]"
			if kindOf(n) == mapNode && inBraces(n) {
				hint = unquotedRange
			}
			d.faults.add(placeOf(n), hint, "%s must be a list, here is %s", where, kindOf(n))
			return
		}
		items = []*yaml.Node{n}
	}
	l.Set, l.At = true, placeOf(n)
	for _, item := range items {
		if text, ok := d.text(where, "a list of texts", item); ok {
			l.Items = append(l.Items, Text{text, true, placeOf(item)})
		}
	}
}

func (f *FileNames) decode(d *decoder, where string, n *yaml.Node, _ reflect.StructTag) {
	f.Set, f.At = true, placeOf(n)
	switch kindOf(n) {
	case mapNode:
		for key, value := range entries(n) {
			name := Text{key.Value, true, placeOf(key)}
			if kindOf(value) == emptyNode && inBraces(n) {
				d.faults.add(placeOf(key), "write a list [a, b], or NAME: PLACE", "%s: %q has no place in the work folder", where, shorten(name.Value))
				continue
			}
			if place, ok := d.text(where+" "+shorten(name.Value), "the place in the work folder", value); ok {
				f.Items = append(f.Items, FileName{name, Text{place, true, placeOf(value)}})
			}
		}
	case listNode:
		for _, item := range n.Content {
			if text, ok := d.text(where, "a list of names", item); ok {
				name := Text{text, true, placeOf(item)}
				f.Items = append(f.Items, FileName{name, name})
			}
		}
	default:
		d.faults.add(placeOf(n), "write a list, [a, b], or a map, {name: place}", "%s must be a list or a map, here is %s", where, kindOf(n))
	}
}
