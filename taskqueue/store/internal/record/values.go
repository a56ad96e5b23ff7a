package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"slices"
	"time"
	"unsafe"
)

func appendNumber(blob []byte, n uint64) []byte { return binary.AppendUvarint(blob, n) }

// signed numbers are written so that small negative ones are short.
func appendSigned(blob []byte, n int64) []byte { return appendNumber(blob, uint64(n<<1)^uint64(n>>63)) }

func (s *source) signed() (int64, error) {
	n, err := s.number()
	return int64(n>>1) ^ -int64(n&1), err
}

func isZero[T comparable](at unsafe.Pointer) bool { return *(*T)(at) == *new(T) }

// isNil tells whether a slice or a map, which both begin with a pointer, is nil.
func isNil(at unsafe.Pointer) bool { return *(*unsafe.Pointer)(at) == nil }

func writeBool(blob []byte, at unsafe.Pointer) []byte {
	if *(*bool)(at) {
		return append(blob, 1)
	}
	return append(blob, 0)
}

func readBool(source *source, at unsafe.Pointer) error {
	n, err := source.number()
	*(*bool)(at) = n != 0
	return err
}

var errRange = errors.New("the number does not fit")

func signedForm[T int | int8 | int16 | int32 | int64]() form {
	write := func(blob []byte, at unsafe.Pointer) []byte { return appendSigned(blob, int64(*(*T)(at))) }
	read := func(source *source, at unsafe.Pointer) error {
		n, err := source.signed()
		if *(*T)(at) = T(n); err == nil && int64(T(n)) != n {
			return errRange
		}
		return err
	}
	return form{wireNumber, write, read, isZero[T], nil}
}

func unsignedForm[T uint | uint8 | uint16 | uint32 | uint64]() form {
	write := func(blob []byte, at unsafe.Pointer) []byte { return appendNumber(blob, uint64(*(*T)(at))) }
	read := func(source *source, at unsafe.Pointer) error {
		n, err := source.number()
		if *(*T)(at) = T(n); err == nil && uint64(T(n)) != n {
			return errRange
		}
		return err
	}
	return form{wireNumber, write, read, isZero[T], nil}
}

func writeString(blob []byte, at unsafe.Pointer) []byte {
	text := *(*string)(at)
	return append(appendNumber(blob, uint64(len(text))), text...)
}

func readString(source *source, at unsafe.Pointer) error {
	text, err := source.bytes()
	*(*string)(at) = text
	return err
}

func writeBytes(blob []byte, at unsafe.Pointer) []byte {
	value := *(*[]byte)(at)
	return append(appendNumber(blob, uint64(len(value))), value...)
}

func readBytes(source *source, at unsafe.Pointer) error {
	text, err := source.bytes()
	*(*[]byte)(at) = []byte(text)
	return err
}

func ownBytes(at unsafe.Pointer) { *(*[]byte)(at) = bytes.Clone(*(*[]byte)(at)) }

func byteArrayForm(length int) form {
	content := func(at unsafe.Pointer) []byte { return unsafe.Slice((*byte)(at), length) }
	write := func(blob []byte, at unsafe.Pointer) []byte {
		return append(appendNumber(blob, uint64(length)), content(at)...)
	}
	read := func(source *source, at unsafe.Pointer) error {
		text, err := source.bytes()
		if err == nil && len(text) != length {
			return errRange
		}
		copy(content(at), text)
		return err
	}
	zero := func(at unsafe.Pointer) bool {
		return !slices.ContainsFunc(content(at), func(b byte) bool { return b != 0 })
	}
	return form{wireBytes, write, read, zero, nil}
}

func writeTime(blob []byte, at unsafe.Pointer) []byte {
	moment := *(*time.Time)(at)
	return appendNumber(appendSigned(blob, moment.Unix()), uint64(moment.Nanosecond()))
}

func readTime(source *source, at unsafe.Pointer) error {
	seconds, err := source.signed()
	if err != nil {
		return err
	}
	nanoseconds, err := source.number()
	if err == nil && nanoseconds >= uint64(time.Second) {
		return errRange
	}
	*(*time.Time)(at) = time.Unix(seconds, int64(nanoseconds)).UTC()
	return err
}

// sequence writes and reads so many values that stand one after the other.
type sequence struct {
	size    uintptr // of a value
	element form
}

func (s *sequence) write(blob []byte, first unsafe.Pointer, count int) []byte {
	blob = append(appendNumber(blob, uint64(count)), byte(s.element.wire))
	for i := range count {
		blob = s.element.write(blob, unsafe.Add(first, uintptr(i)*s.size))
	}
	return blob
}

func (s *sequence) read(source *source, first unsafe.Pointer, count int) error {
	for i := range count {
		if err := s.element.read(source, unsafe.Add(first, uintptr(i)*s.size)); err != nil {
			return err
		}
	}
	return nil
}

func (s *sequence) own(first unsafe.Pointer, count int) {
	for i := range count {
		s.element.own(unsafe.Add(first, uintptr(i)*s.size))
	}
}

func sliceForm(t reflect.Type, element form) form {
	values := sequence{t.Elem().Size(), element}
	write := func(blob []byte, at unsafe.Pointer) []byte {
		list := reflect.NewAt(t, at).Elem()
		return values.write(blob, list.UnsafePointer(), list.Len())
	}
	read := func(source *source, at unsafe.Pointer) error {
		count, err := source.count(element.wire)
		if err != nil {
			return err
		}
		list := reflect.NewAt(t, at).Elem()
		list.Set(reflect.MakeSlice(t, count, count))
		return values.read(source, list.UnsafePointer(), count)
	}
	own := func(at unsafe.Pointer) {
		if isNil(at) {
			return
		}
		list := reflect.NewAt(t, at).Elem()
		copied := reflect.MakeSlice(t, list.Len(), list.Len())
		reflect.Copy(copied, list)
		if list.Set(copied); element.own != nil {
			values.own(list.UnsafePointer(), list.Len())
		}
	}
	return form{wireList, write, read, isNil, own}
}

func arrayForm(t reflect.Type, element form) form {
	values, length := sequence{t.Elem().Size(), element}, t.Len()
	write := func(blob []byte, at unsafe.Pointer) []byte { return values.write(blob, at, length) }
	read := func(source *source, at unsafe.Pointer) error {
		count, err := source.count(element.wire)
		if err == nil && count != length {
			err = errRange
		}
		if err != nil {
			return err
		}
		return values.read(source, at, count)
	}
	zero := func(at unsafe.Pointer) bool { return reflect.NewAt(t, at).Elem().IsZero() }
	if element.own == nil {
		return form{wireList, write, read, zero, nil}
	}
	return form{wireList, write, read, zero, func(at unsafe.Pointer) { values.own(at, length) }}
}

func mapForm(t reflect.Type, key, element form) form {
	write := func(blob []byte, at unsafe.Pointer) []byte {
		entries := reflect.NewAt(t, at).Elem()
		blob = append(appendNumber(blob, uint64(entries.Len())), byte(key.wire), byte(element.wire))
		name, value := reflect.New(t.Key()), reflect.New(t.Elem())
		for entry := entries.MapRange(); entry.Next(); {
			name.Elem().SetIterKey(entry)
			value.Elem().SetIterValue(entry)
			blob = element.write(key.write(blob, name.UnsafePointer()), value.UnsafePointer())
		}
		return blob
	}
	read := func(source *source, at unsafe.Pointer) error {
		count, err := source.count(key.wire, element.wire)
		if err != nil {
			return err
		}
		entries := reflect.MakeMapWithSize(t, count)
		reflect.NewAt(t, at).Elem().Set(entries)
		name, value := reflect.New(t.Key()), reflect.New(t.Elem())
		for range count {
			name.Elem().SetZero()
			value.Elem().SetZero()
			if err := key.read(source, name.UnsafePointer()); err != nil {
				return err
			}
			if err := element.read(source, value.UnsafePointer()); err != nil {
				return err
			}
			entries.SetMapIndex(name.Elem(), value.Elem())
		}
		return nil
	}
	own := func(at unsafe.Pointer) {
		if isNil(at) {
			return
		}
		entries := reflect.NewAt(t, at).Elem()
		copied := reflect.MakeMapWithSize(t, entries.Len())
		value := reflect.New(t.Elem())
		for entry := entries.MapRange(); entry.Next(); {
			if value.Elem().SetIterValue(entry); element.own != nil {
				element.own(value.UnsafePointer())
			}
			copied.SetMapIndex(entry.Key(), value.Elem())
		}
		entries.Set(copied)
	}
	return form{wireMap, write, read, isNil, own}
}
