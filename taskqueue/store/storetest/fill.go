package storetest

import (
	"fmt"
	"reflect"
	"time"
)

// filler sets every field of a record to a value of its own, so that a field
// which a store forgets, or shares with its caller, is noticed. It needs no
// care when a record gets a new field.
type filler struct{ count int }

// filled returns a record without a zero field.
func filled[T any](seed int) T {
	var record T
	f := filler{count: seed * 1000}
	f.fill(reflect.ValueOf(&record).Elem())
	return record
}

var timeType = reflect.TypeFor[time.Time]()

func (f *filler) fill(v reflect.Value) {
	f.count++
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString(fmt.Sprintf("text %d", f.count))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(f.count))
	case reflect.Uint8:
		v.SetUint(uint64(f.count%3 + 1))
	case reflect.Uint, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(f.count))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		f.fill(v.Index(0))
		f.fill(v.Index(1))
	case reflect.Array:
		for i := range v.Len() {
			f.fill(v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range 2 {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			f.fill(key)
			f.fill(value)
			v.SetMapIndex(key, value)
		}
	case reflect.Struct:
		if v.Type() == timeType {
			v.Set(reflect.ValueOf(time.Unix(1_700_000_000+int64(f.count), int64(f.count)).UTC()))
			return
		}
		for i := range v.NumField() {
			f.fill(v.Field(i))
		}
	default:
		panic(fmt.Sprintf("no filling for %s: add one", v.Type()))
	}
}

// scribble overwrites whatever a record shares with copies of itself:
// elements of slices and entries of maps.
func scribble(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		scribble(v.Elem())
	case reflect.Slice:
		for i := range v.Len() {
			scribble(v.Index(i))
			v.Index(i).SetZero()
		}
	case reflect.Map:
		v.Clear()
	case reflect.Struct:
		if v.Type() == timeType {
			return
		}
		for i := range v.NumField() {
			scribble(v.Field(i))
		}
	}
}
