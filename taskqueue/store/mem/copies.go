package mem

import (
	"fmt"
	"reflect"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// Copies of records share nothing with the originals. What there is to copy
// is worked out once from the type, so a new field needs no care.
var (
	workflowCopy = newCopier[taskqueue.Workflow]()
	taskCopy     = newCopier[task.Task]()
	fileCopy     = newCopier[taskqueue.FileRecord]()
	classCopy    = newCopier[taskqueue.Eligibility]()
	attemptCopy  = newCopier[taskqueue.Attempt]()
	leaseCopy    = newCopier[taskqueue.Lease]()
	siteCopy     = newCopier[taskqueue.SiteRecord]()
	pilotCopy    = newCopier[taskqueue.PilotRecord]()
	grantCopy    = newCopier[taskqueue.Grant]()
)

type copier[T any] struct{ whenSaved, whenLoaded detach }

func newCopier[T any]() copier[T] {
	return copier[T]{detachFor(reflect.TypeFor[T](), true), detachFor(reflect.TypeFor[T](), false)}
}

// saved returns the copy that the store keeps, with all times in UTC.
func (c copier[T]) saved(record *T) *T {
	own := new(T)
	*own = *record
	c.detach(own)
	return own
}

// load makes the copy that the caller may keep where it is to be.
func (c copier[T]) load(to, record *T) {
	*to = *record
	if c.whenLoaded != nil {
		c.whenLoaded(reflect.ValueOf(to).Elem())
	}
}

// list makes copies of records that the caller may keep; none is nil.
func (c copier[T]) list(records []*T) []T {
	return gather(records, func(record, to *T) bool {
		c.load(to, record)
		return true
	})
}

// detach makes a shallow copy one that the store may keep, with all times in
// UTC.
func (c copier[T]) detach(record *T) {
	if c.whenSaved != nil {
		c.whenSaved(reflect.ValueOf(record).Elem())
	}
}

// detach replaces, within a shallow copy, what it shares with the original.
type detach func(reflect.Value)

// detachFor returns nil for types whose shallow copies share nothing; with
// times, it also moves times to UTC.
func detachFor(t reflect.Type, times bool) detach {
	switch {
	case t == reflect.TypeFor[time.Time]():
		if !times {
			return nil
		}
		return func(v reflect.Value) {
			moment := v.Addr().Interface().(*time.Time)
			*moment = moment.UTC()
		}
	case t.Kind() == reflect.Struct:
		return detachStruct(t, times)
	case t.Kind() == reflect.Array:
		element := detachFor(t.Elem(), times)
		if element == nil {
			return nil
		}
		return func(v reflect.Value) {
			for i := range v.Len() {
				element(v.Index(i))
			}
		}
	case t.Kind() == reflect.Slice:
		return detachSlice(t, times)
	case t.Kind() == reflect.Map:
		return detachMap(t, times)
	case t.Kind() < reflect.Array || t.Kind() == reflect.String:
		return nil
	}
	panic(fmt.Sprintf("records must not hold a %s: it cannot be stored", t))
}

func detachStruct(t reflect.Type, times bool) detach {
	type field struct {
		index  int
		detach detach
	}
	var fields []field
	for i := range t.NumField() {
		if d := detachFor(t.Field(i).Type, times); d != nil {
			fields = append(fields, field{i, d})
		}
	}
	if fields == nil {
		return nil
	}
	return func(v reflect.Value) {
		for _, f := range fields {
			f.detach(v.Field(f.index))
		}
	}
}

func detachSlice(t reflect.Type, times bool) detach {
	element := detachFor(t.Elem(), times)
	return func(v reflect.Value) {
		if v.IsNil() {
			return
		}
		own := reflect.MakeSlice(t, v.Len(), v.Len())
		reflect.Copy(own, v)
		v.Set(own)
		if element == nil {
			return
		}
		for i := range v.Len() {
			element(v.Index(i))
		}
	}
}

func detachMap(t reflect.Type, times bool) detach {
	element := detachFor(t.Elem(), times)
	return func(v reflect.Value) {
		if v.IsNil() {
			return
		}
		own := reflect.MakeMapWithSize(t, v.Len())
		for entry := v.MapRange(); entry.Next(); {
			value := entry.Value()
			if element != nil {
				detached := reflect.New(t.Elem()).Elem()
				detached.Set(value)
				element(detached)
				value = detached
			}
			own.SetMapIndex(entry.Key(), value)
		}
		v.Set(own)
	}
}
