package codec

import (
	"fmt"
	"math"
	"reflect"

	"google.golang.org/protobuf/encoding/protowire"
)

// field is a field of a struct.
type field struct {
	name string
	tag  []byte
	plan *plan // of its items, where it is a list
	list bool
	most Range // items of a list
}

func (f *field) packed() bool { return f.list && f.plan.wire != protowire.BytesType }

func (c *Codec) structure(t reflect.Type) *plan {
	c.plans[t] = nil // under way
	fields := make([]field, t.NumField())
	for i := range fields {
		f, at, name := &fields[i], t.Field(i), t.String()+"."+t.Field(i).Name
		if !at.IsExported() {
			panic("codec: " + name + " is not exported")
		}
		of := at.Type
		f.name = at.Name
		f.list = of.Kind() == reflect.Slice && of.Elem().Kind() != reflect.Uint8 && c.rules[of].form == nil
		if f.list {
			f.most, _ = c.limit(name, of, "list")
			of, name = of.Elem(), name+"[]"
		}
		f.plan = c.plan(of, name)
		wire := f.plan.wire
		if f.list {
			wire = protowire.BytesType
		}
		f.tag = protowire.AppendTag(nil, protowire.Number(i+1), wire)
	}
	return &plan{
		wire: protowire.BytesType,
		write: func(b []byte, v reflect.Value) []byte {
			for i := range fields {
				if at := v.Field(i); !at.IsZero() {
					b = fields[i].write(b, at)
				}
			}
			return b
		},
		read: func(r *reader, data []byte, v reflect.Value) error { return readFields(r, fields, data, v) },
	}
}

func (f *field) write(b []byte, v reflect.Value) []byte {
	switch {
	case f.packed():
		return sized(append(b, f.tag...), &plan{write: func(b []byte, v reflect.Value) []byte {
			for i := range v.Len() {
				b = f.plan.write(b, v.Index(i))
			}
			return b
		}}, v)
	case f.list:
		for i := range v.Len() {
			b = sized(append(b, f.tag...), f.plan, v.Index(i))
		}
		return b
	case f.plan.wire == protowire.BytesType:
		return sized(append(b, f.tag...), f.plan, v)
	}
	return f.plan.write(append(b, f.tag...), v)
}

// sized appends a value with its length before it. Most lengths are one byte, so
// that much is left free; what is longer moves up.
func sized(b []byte, p *plan, v reflect.Value) []byte {
	start := len(b)
	b = p.write(append(b, 0), v)
	n := len(b) - start - 1
	if extra := protowire.SizeVarint(uint64(n)) - 1; extra > 0 {
		b = append(b, make([]byte, extra)...)
		copy(b[start+1+extra:], b[start+1:start+1+n])
	}
	protowire.AppendVarint(b[:start], uint64(n))
	return b
}

func readFields(r *reader, fields []field, data []byte, v reflect.Value) error {
	for len(data) > 0 {
		number, wire, n := protowire.ConsumeTag(data)
		if n < 0 {
			return errCut
		}
		size := protowire.ConsumeFieldValue(number, wire, data[n:])
		if size < 0 {
			return errCut
		}
		if int(number) <= len(fields) {
			f := &fields[number-1]
			if err := f.read(r, data, n, size, v.Field(int(number-1))); err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
		}
		data = data[n+size:]
	}
	return nil
}

// read takes a field's value, which lies in data behind the tag.
func (f *field) read(r *reader, data []byte, tag, size int, v reflect.Value) error {
	if string(data[:tag]) != string(f.tag) {
		return fmt.Errorf("it is of another kind")
	}
	content := data[tag : tag+size]
	if f.list || f.plan.wire == protowire.BytesType {
		content, _ = protowire.ConsumeBytes(content)
	}
	switch {
	case f.packed():
		return f.readPacked(r, content, v)
	case f.list:
		if v.Len() == v.Cap() {
			v.Grow(1)
		}
		at := v.Len()
		if err := f.more(r, at+1, 1); err != nil {
			return err
		}
		v.SetLen(at + 1)
		return f.plan.read(r, content, v.Index(at))
	}
	return f.plan.read(r, content, v)
}

// more takes items of a list into account.
func (f *field) more(r *reader, all, further int) error {
	if r.items -= further; r.items < 0 {
		return fmt.Errorf("the message has too many items in its lists")
	}
	return f.most.holds(all, "items")
}

func (f *field) readPacked(r *reader, content []byte, v reflect.Value) error {
	ends := func(i int) bool { return content[i] < 0x80 } // a number's last byte
	if f.plan.wire == protowire.Fixed64Type {
		ends = func(i int) bool { return i%8 == 7 }
	}
	n := 0
	for i := range content {
		if ends(i) {
			n++
		}
	}
	if err := f.more(r, v.Len()+n, n); err != nil {
		return err
	}
	at := v.Len()
	v.Grow(n)
	v.SetLen(at + n)
	begin := 0
	for i := range content {
		if !ends(i) {
			continue
		}
		if err := f.plan.read(r, content[begin:i+1], v.Index(at)); err != nil {
			return err
		}
		begin, at = i+1, at+1
	}
	if begin < len(content) {
		return errCut
	}
	return nil
}

func floatBits(v reflect.Value) uint64 { return math.Float64bits(v.Float()) }

func readFloat(_ *reader, data []byte, v reflect.Value) error {
	bits, n := protowire.ConsumeFixed64(data)
	if n < 0 {
		return errCut
	}
	v.SetFloat(math.Float64frombits(bits))
	return nil
}
