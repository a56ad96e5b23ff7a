package record

import (
	"fmt"
	"hash/fnv"
	"reflect"
	"slices"
	"time"
	"unsafe"
)

// Codec encodes and decodes records of one type.
type Codec[T any] struct{ form form }

// New works out how to store a T. It panics on types that cannot be stored,
// such as pointers, and on fields whose names give the same number.
func New[T any]() Codec[T] { return Codec[T]{formOf(reflect.TypeFor[T]())} }

// Encode returns the blob of a record.
func (c Codec[T]) Encode(record *T) []byte { return c.Append(make([]byte, 0, 256), record) }

// Append appends the blob of a record.
func (c Codec[T]) Append(blob []byte, record *T) []byte {
	return c.form.write(blob, unsafe.Pointer(record))
}

// Decode reads a blob into a record that is zero. It fails on blobs that are
// cut off or hold values that do not fit the record's fields.
func (c Codec[T]) Decode(blob []byte, record *T) error {
	source := &source{text: string(blob)}
	if err := c.form.read(source, unsafe.Pointer(record)); err != nil {
		return fmt.Errorf("decode %T: %w", *record, err)
	}
	if source.at != len(source.text) {
		return fmt.Errorf("decode %T: %d bytes are left over", *record, len(source.text)-source.at)
	}
	return nil
}

// Own gives a copy of a record slices and maps of its own.
func (c Codec[T]) Own(record *T) {
	if c.form.own != nil {
		c.form.own(unsafe.Pointer(record))
	}
}

// wire is how a value is written, enough to skip it.
type wire uint8

const (
	wireNumber wire = iota + 1 // varint
	wireBytes                  // length, bytes
	wireStruct                 // fields, 0
	wireList                   // count, wire form, values
	wireMap                    // count, wire forms of key and value, pairs
	wireTime                   // seconds since 1970 (signed varint), nanoseconds
)

// form is how values of one type are written and read. It is worked out once, from the
// type; values are then reached by their addresses, as a queue reads records all the time.
type form struct {
	wire  wire
	write func(blob []byte, at unsafe.Pointer) []byte
	read  func(source *source, at unsafe.Pointer) error
	zero  func(at unsafe.Pointer) bool // as reflect.Value.IsZero
	own   func(at unsafe.Pointer)      // replaces slices and maps by copies; nil: there are none
}

var basicForms = map[reflect.Kind]form{
	reflect.Bool: {wireNumber, writeBool, readBool, isZero[bool], nil}, reflect.String: {wireBytes, writeString, readString, isZero[string], nil},
	reflect.Int: signedForm[int](), reflect.Int8: signedForm[int8](), reflect.Int16: signedForm[int16](),
	reflect.Int32: signedForm[int32](), reflect.Int64: signedForm[int64](),
	reflect.Uint: unsignedForm[uint](), reflect.Uint8: unsignedForm[uint8](), reflect.Uint16: unsignedForm[uint16](),
	reflect.Uint32: unsignedForm[uint32](), reflect.Uint64: unsignedForm[uint64](),
}

func formOf(t reflect.Type) form {
	if basic, is := basicForms[t.Kind()]; is {
		return basic
	}
	switch t.Kind() {
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return form{wireBytes, writeBytes, readBytes, isNil, ownBytes}
		}
		return sliceForm(t, formOf(t.Elem()))
	case reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return byteArrayForm(t.Len())
		}
		return arrayForm(t, formOf(t.Elem()))
	case reflect.Map:
		return mapForm(t, formOf(t.Key()), formOf(t.Elem()))
	case reflect.Struct:
		if t == reflect.TypeFor[time.Time]() {
			return form{wireTime, writeTime, readTime, isZero[time.Time], nil}
		}
		return structForm(t)
	}
	panic(fmt.Sprintf("records must not hold a %s: it cannot be stored", t))
}

// field is one field of a struct, or of a group of fields in it.
type field struct {
	name   string
	offset uintptr
	key    uint64
	form   form
}

func (f *field) of(record unsafe.Pointer) unsafe.Pointer { return unsafe.Add(record, f.offset) }

// numberBits bounds the numbers of fields, so that a key takes 3 bytes.
const numberBits = 18

// fieldNumber derives a field's number from its name; 0 ends a struct.
func fieldNumber(name string) uint64 {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(name)) // never fails
	return hash.Sum64()%(1<<numberBits-1) + 1
}

// fieldsOf lists the fields of a struct; those of embedded structs with the tag
// `record:"inline"` are among them, as if they were not in a group.
func fieldsOf(t reflect.Type) (fields []field) {
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			panic(fmt.Sprintf("field %s of %s is not exported: it cannot be stored", f.Name, t))
		}
		if f.Anonymous && f.Tag.Get("record") == "inline" {
			for _, inner := range fieldsOf(f.Type) {
				inner.offset += f.Offset
				fields = append(fields, inner)
			}
			continue
		}
		made := field{name: f.Name, offset: f.Offset, form: formOf(f.Type)}
		made.key = fieldNumber(f.Name)<<3 | uint64(made.form.wire)
		fields = append(fields, made)
	}
	return fields
}

func structForm(t reflect.Type) form {
	fields := fieldsOf(t)
	byKey := make(map[uint64]*field)
	names := make(map[uint64]string)
	for i := range fields {
		f := &fields[i]
		if other := names[f.key>>3]; other != "" {
			panic(fmt.Sprintf("fields %s and %s of %s get the same number: rename the newer one", other, f.name, t))
		}
		names[f.key>>3] = f.name
		byKey[f.key] = f
	}
	write := func(blob []byte, at unsafe.Pointer) []byte {
		for i := range fields {
			f := &fields[i]
			if value := f.of(at); !f.form.zero(value) {
				blob = f.form.write(appendNumber(blob, f.key), value)
			}
		}
		return append(blob, 0)
	}
	zero := func(at unsafe.Pointer) bool {
		for i := range fields {
			if !fields[i].form.zero(fields[i].of(at)) {
				return false
			}
		}
		return true
	}
	read := func(source *source, at unsafe.Pointer) error {
		next := 0 // fields mostly come in their order
		for {
			key, err := source.number()
			if err != nil || key == 0 {
				return err
			}
			for next < len(fields) && fields[next].key != key {
				next++
			}
			var f *field
			if next < len(fields) {
				f = &fields[next]
				next++
			} else if f, next = byKey[key], 0; f == nil {
				if err := source.skip(wire(key & 7)); err != nil {
					return err
				}
				continue
			}
			if err := f.form.read(source, f.of(at)); err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
		}
	}
	sharing := slices.DeleteFunc(slices.Clone(fields), func(f field) bool { return f.form.own == nil })
	if len(sharing) == 0 {
		return form{wireStruct, write, read, zero, nil}
	}
	own := func(at unsafe.Pointer) {
		for i := range sharing {
			sharing[i].form.own(sharing[i].of(at))
		}
	}
	return form{wireStruct, write, read, zero, own}
}
