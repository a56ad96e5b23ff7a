package codec

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// plan is how values of a type are written and read.
type plan struct {
	wire protowire.Type
	// write appends a value, of a BytesType without its length.
	write func(b []byte, v reflect.Value) []byte
	// read takes what write has written.
	read func(r *reader, data []byte, v reflect.Value) error
}

// reader is a message that is read.
type reader struct{ items int } // that its lists may still have

var errCut = errors.New("it ends too early or too late")

// plan returns how a type travels; name is that of the field that has it, for its
// limit.
func (c *Codec) plan(t reflect.Type, name string) *plan {
	if p, made := c.plans[t]; made {
		if p == nil {
			panic(fmt.Sprintf("codec: %s contains itself", t))
		}
		return p
	}
	rule := c.rules[t]
	var p *plan
	switch {
	case rule.form != nil:
		p = c.formed(t, rule.form)
	case t.Kind() == reflect.Interface:
		p = c.union(t, rule.kinds)
	case t.Kind() == reflect.Struct:
		p = c.structure(t)
	case t.Kind() == reflect.Pointer:
		return pointer(c.plan(t.Elem(), name))
	default:
		return c.plain(t, name)
	}
	if rule.check != nil {
		read := p.read
		p.read = func(r *reader, data []byte, v reflect.Value) error {
			if err := read(r, data, v); err != nil {
				return err
			}
			return rule.check(v.Addr().Interface())
		}
	}
	c.plans[t] = p
	return p
}

func pointer(to *plan) *plan {
	return &plan{
		wire:  to.wire,
		write: func(b []byte, v reflect.Value) []byte { return to.write(b, v.Elem()) },
		read: func(r *reader, data []byte, v reflect.Value) error {
			v.Set(reflect.New(v.Type().Elem()))
			return to.read(r, data, v.Elem())
		},
	}
}

func (c *Codec) formed(t reflect.Type, f *form) *plan {
	as := c.plan(f.as, t.String())
	return &plan{
		wire: as.wire,
		write: func(b []byte, v reflect.Value) []byte {
			return as.write(b, reflect.ValueOf(f.to(v.Addr().Interface())).Elem())
		},
		read: func(r *reader, data []byte, v reflect.Value) error {
			formed := reflect.New(f.as)
			if err := as.read(r, data, formed.Elem()); err != nil {
				return err
			}
			return f.from(formed.Interface(), v.Addr().Interface())
		},
	}
}

// union is one of several types, of which the number goes before the value.
func (c *Codec) union(t reflect.Type, kinds []reflect.Type) *plan {
	plans, numbers := make([]*plan, len(kinds)), make(map[reflect.Type]protowire.Number, len(kinds))
	for i, kind := range kinds {
		plans[i], numbers[kind] = c.plan(kind, kind.String()), protowire.Number(i+1)
	}
	return &plan{
		wire: protowire.BytesType,
		write: func(b []byte, v reflect.Value) []byte {
			held := reflect.New(v.Elem().Type()).Elem() // whose fields have addresses
			held.Set(v.Elem())
			number := numbers[held.Type()]
			if number == 0 {
				panic(fmt.Sprintf("codec: a %s is no %s that travels", held.Type(), t))
			}
			return sized(protowire.AppendTag(b, number, protowire.BytesType), plans[number-1], held)
		},
		read: func(r *reader, data []byte, v reflect.Value) error {
			number, wire, n := protowire.ConsumeTag(data)
			if n < 0 || wire != protowire.BytesType || int(number) > len(plans) {
				return fmt.Errorf("no kind of %s that this version knows", t)
			}
			content, m := protowire.ConsumeBytes(data[n:])
			if m < 0 || n+m < len(data) {
				return errCut
			}
			held := reflect.New(kinds[number-1]).Elem()
			if err := plans[number-1].read(r, content, held); err != nil {
				return fmt.Errorf("%s: %w", kinds[number-1].Name(), err)
			}
			v.Set(held)
			return nil
		},
	}
}

// plain is a number, a text or bytes.
func (c *Codec) plain(t reflect.Type, name string) *plan {
	limit, limited := c.limit(name, t, "")
	within := func(number int64) error {
		if limited && (number < limit.Least || number > limit.Most) {
			return fmt.Errorf("%d is not from %d to %d", number, limit.Least, limit.Most)
		}
		return nil
	}
	switch t.Kind() {
	case reflect.Bool:
		return number(
			func(v reflect.Value) uint64 { return protowire.EncodeBool(v.Bool()) },
			func(v reflect.Value, x uint64) error { v.SetBool(x != 0); return nil })
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return number(
			func(v reflect.Value) uint64 { return protowire.EncodeZigZag(v.Int()) },
			func(v reflect.Value, x uint64) error {
				value := protowire.DecodeZigZag(x)
				v.SetInt(value)
				if v.OverflowInt(value) {
					return fmt.Errorf("%d is no %s", value, t)
				}
				return within(value)
			})
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return number(
			func(v reflect.Value) uint64 { return v.Uint() },
			func(v reflect.Value, x uint64) error {
				v.SetUint(x)
				if v.OverflowUint(x) {
					return fmt.Errorf("%d is no %s", x, t)
				}
				return within(int64(x))
			})
	case reflect.Float64:
		return &plan{
			wire:  protowire.Fixed64Type,
			write: func(b []byte, v reflect.Value) []byte { return protowire.AppendFixed64(b, floatBits(v)) },
			read:  readFloat,
		}
	case reflect.String:
		return c.text(t, name)
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return c.octets(t, name)
		}
	}
	panic(fmt.Sprintf("codec: %s, a %s, has no form", name, t))
}

func number(get func(reflect.Value) uint64, set func(reflect.Value, uint64) error) *plan {
	return &plan{
		wire:  protowire.VarintType,
		write: func(b []byte, v reflect.Value) []byte { return protowire.AppendVarint(b, get(v)) },
		read: func(_ *reader, data []byte, v reflect.Value) error {
			x, n := protowire.ConsumeVarint(data)
			if n < 0 {
				return errCut
			}
			return set(v, x)
		},
	}
}

// text is a text; what is not UTF-8 in it, as where it quotes a payload, arrives as
// replacement characters.
func (c *Codec) text(t reflect.Type, name string) *plan {
	most, _ := c.limit(name, t, "text")
	return &plan{
		wire:  protowire.BytesType,
		write: func(b []byte, v reflect.Value) []byte { return append(b, v.String()...) },
		read: func(_ *reader, data []byte, v reflect.Value) error {
			if !utf8.Valid(data) {
				data = []byte(strings.ToValidUTF8(string(data), "\uFFFD"))
			}
			v.SetString(string(data))
			return most.holds(len(data), "bytes")
		},
	}
}

// octets are bytes as they are: any number of them, or as many as an array has.
func (c *Codec) octets(t reflect.Type, name string) *plan {
	p := &plan{
		wire:  protowire.BytesType,
		write: func(b []byte, v reflect.Value) []byte { return append(b, v.Bytes()...) },
	}
	if t.Kind() == reflect.Array {
		p.read = func(_ *reader, data []byte, v reflect.Value) error {
			if len(data) != t.Len() {
				return fmt.Errorf("%d bytes of a %s, which has %d", len(data), t.Name(), t.Len())
			}
			copy(v.Bytes(), data)
			return nil
		}
		return p
	}
	most, _ := c.limit(name, t, "text")
	p.read = func(_ *reader, data []byte, v reflect.Value) error {
		v.SetBytes(append([]byte(nil), data...))
		return most.holds(len(data), "bytes")
	}
	return p
}

func (r Range) holds(n int, what string) error {
	switch {
	case int64(n) > r.Most:
		return fmt.Errorf("%d %s, at most %d", n, what, r.Most)
	case int64(n) < r.Least:
		return fmt.Errorf("%d %s, at least %d", n, what, r.Least)
	}
	return nil
}
