package codec

import (
	"reflect"
)

// Range bounds a number from Least to Most; of a text it counts the bytes, of a list
// or map the items. What is left out of a message is not measured.
type Range struct{ Least, Most int64 }

// UpTo is a Range from 0.
func UpTo(most int) Range { return Range{0, int64(most)} }

// Codec encodes and decodes the types that are reachable from those it was made
// for.
type Codec struct {
	limits map[string]Range
	used   map[string]bool
	rules  map[reflect.Type]rule
	plans  map[reflect.Type]*plan
	items  int
}

// rule is what somebody has said about a type.
type rule struct {
	kinds []reflect.Type // that an interface may hold, by number
	form  *form
	check func(value any) error // takes a pointer
}

// form stands for a type on the wire.
type form struct {
	as   reflect.Type
	to   func(value any) any         // both are pointers
	from func(form, value any) error // both are pointers
}

// Option says something about a type.
type Option func(*Codec)

// Limits bound what is decoded: by a field as "task.File.LFN", by a type as
// "task.LFN", or by what is left as "text", "list" and "int".
func Limits(limits map[string]Range) Option {
	return func(c *Codec) {
		for name, limit := range limits {
			c.limits[name] = limit
		}
	}
}

// Items bounds how many items all lists of a message have together.
func Items(most int) Option { return func(c *Codec) { c.items = most } }

// Union tells which types an interface holds; the numbers on the wire are their
// places here, from 1.
func Union[I any](kinds ...I) Option {
	return func(c *Codec) {
		c.change(reflect.TypeFor[I](), func(r *rule) {
			for _, kind := range kinds {
				r.kinds = append(r.kinds, reflect.TypeOf(kind))
			}
		})
	}
}

// Check is asked about every value of a type that was decoded.
func Check[T any](check func(value *T) error) Option {
	return func(c *Codec) {
		c.change(reflect.TypeFor[T](), func(r *rule) { r.check = func(value any) error { return check(value.(*T)) } })
	}
}

// Form has values of a type travel as those of another.
func Form[T, W any](to func(*T) W, from func(*W) (T, error)) Option {
	return func(c *Codec) {
		c.change(reflect.TypeFor[T](), func(r *rule) {
			r.form = &form{
				as: reflect.TypeFor[W](),
				to: func(value any) any { w := to(value.(*T)); return &w },
				from: func(form, value any) (err error) {
					*value.(*T), err = from(form.(*W))
					return err
				},
			}
		})
	}
}

func (c *Codec) change(t reflect.Type, change func(*rule)) {
	r := c.rules[t]
	change(&r)
	c.rules[t] = r
}

// New makes a codec for some types and all that they are made of. It panics if a
// type has no form on the wire, or a limit names nothing.
func New(types []reflect.Type, options ...Option) *Codec {
	c := &Codec{
		limits: make(map[string]Range), used: map[string]bool{"text": true, "list": true, "int": true},
		rules: make(map[reflect.Type]rule), plans: make(map[reflect.Type]*plan),
	}
	for _, option := range options {
		option(c)
	}
	for _, t := range types {
		c.plan(t, t.String())
	}
	for name := range c.limits {
		if !c.used[name] {
			panic("codec: a limit for " + name + ", which is nothing that is encoded")
		}
	}
	return c
}

// Append appends the form of a value, which a pointer points to.
func (c *Codec) Append(b []byte, value any) []byte {
	v := reflect.ValueOf(value).Elem()
	return c.plans[v.Type()].write(b, v)
}

// Decode reads a value, to which a pointer points.
func (c *Codec) Decode(data []byte, value any) error {
	v := reflect.ValueOf(value).Elem()
	return c.plans[v.Type()].read(&reader{items: c.items}, data, v)
}

// limit is what bounds a field by its name, or else by its type or the kind of
// that.
func (c *Codec) limit(field string, t reflect.Type, kind string) (Range, bool) {
	for _, name := range []string{field, t.String(), kind} {
		if limit, found := c.limits[name]; found {
			c.used[name] = true
			return limit, true
		}
	}
	return Range{}, false
}
