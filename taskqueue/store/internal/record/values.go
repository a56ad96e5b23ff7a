package record

import (
	"encoding/binary"
	"errors"
	"reflect"
	"time"
)

func appendNumber(blob []byte, n uint64) []byte { return binary.AppendUvarint(blob, n) }

// signed numbers are written so that small negative ones are short.
func appendSigned(blob []byte, n int64) []byte { return appendNumber(blob, uint64(n<<1)^uint64(n>>63)) }

func (s *source) signed() (int64, error) {
	n, err := s.number()
	return int64(n>>1) ^ -int64(n&1), err
}

func writeBool(blob []byte, v reflect.Value) []byte {
	if v.Bool() {
		return append(blob, 1)
	}
	return append(blob, 0)
}

func readBool(source *source, v reflect.Value) error {
	n, err := source.number()
	v.SetBool(n != 0)
	return err
}

var errRange = errors.New("the number does not fit")

func writeInt(blob []byte, v reflect.Value) []byte { return appendSigned(blob, v.Int()) }

func readInt(source *source, v reflect.Value) error {
	n, err := source.signed()
	if err == nil && v.OverflowInt(n) {
		return errRange
	}
	v.SetInt(n)
	return err
}

func writeUint(blob []byte, v reflect.Value) []byte { return appendNumber(blob, v.Uint()) }

func readUint(source *source, v reflect.Value) error {
	n, err := source.number()
	if err == nil && v.OverflowUint(n) {
		return errRange
	}
	v.SetUint(n)
	return err
}

func writeString(blob []byte, v reflect.Value) []byte {
	text := v.String()
	return append(appendNumber(blob, uint64(len(text))), text...)
}

func readString(source *source, v reflect.Value) error {
	text, err := source.bytes()
	v.SetString(text)
	return err
}

func writeBytes(blob []byte, v reflect.Value) []byte {
	return append(appendNumber(blob, uint64(v.Len())), v.Bytes()...)
}

func readBytes(source *source, v reflect.Value) error {
	text, err := source.bytes()
	v.SetBytes([]byte(text))
	return err
}

func writeByteArray(blob []byte, v reflect.Value) []byte {
	blob = appendNumber(blob, uint64(v.Len()))
	if v.CanAddr() {
		return append(blob, v.Bytes()...)
	}
	for i := range v.Len() {
		blob = append(blob, byte(v.Index(i).Uint()))
	}
	return blob
}

func readByteArray(source *source, v reflect.Value) error {
	text, err := source.bytes()
	if err == nil && len(text) != v.Len() {
		return errRange
	}
	copy(v.Bytes(), text)
	return err
}

func writeTime(blob []byte, v reflect.Value) []byte {
	moment := v.Interface().(time.Time)
	return appendNumber(appendSigned(blob, moment.Unix()), uint64(moment.Nanosecond()))
}

func readTime(source *source, v reflect.Value) error {
	seconds, err := source.signed()
	if err != nil {
		return err
	}
	nanoseconds, err := source.number()
	if err == nil && nanoseconds >= uint64(time.Second) {
		return errRange
	}
	*v.Addr().Interface().(*time.Time) = time.Unix(seconds, int64(nanoseconds)).UTC()
	return err
}

func listForm(t reflect.Type, element form) form {
	write := func(blob []byte, v reflect.Value) []byte {
		blob = append(appendNumber(blob, uint64(v.Len())), byte(element.wire))
		for i := range v.Len() {
			blob = element.write(blob, v.Index(i))
		}
		return blob
	}
	read := func(source *source, v reflect.Value) error {
		count, err := source.count(element.wire)
		if err != nil {
			return err
		}
		if t.Kind() == reflect.Slice {
			v.Set(reflect.MakeSlice(t, count, count))
		} else if count != v.Len() {
			return errRange
		}
		for i := range count {
			if err := element.read(source, v.Index(i)); err != nil {
				return err
			}
		}
		return nil
	}
	return form{wireList, write, read}
}

func mapForm(t reflect.Type, key, element form) form {
	write := func(blob []byte, v reflect.Value) []byte {
		blob = append(appendNumber(blob, uint64(v.Len())), byte(key.wire), byte(element.wire))
		for entry := v.MapRange(); entry.Next(); {
			blob = element.write(key.write(blob, entry.Key()), entry.Value())
		}
		return blob
	}
	read := func(source *source, v reflect.Value) error {
		count, err := source.count(key.wire, element.wire)
		if err != nil {
			return err
		}
		v.Set(reflect.MakeMapWithSize(t, count))
		for range count {
			name, value := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
			if err := key.read(source, name); err != nil {
				return err
			}
			if err := element.read(source, value); err != nil {
				return err
			}
			v.SetMapIndex(name, value)
		}
		return nil
	}
	return form{wireMap, write, read}
}
