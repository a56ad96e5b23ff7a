package taskqueue_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/mem"
)

// A rule that meets a store that fails returns its error: nothing panics beyond the
// package, and nothing goes on as if all were well. The store's transaction is over.
func TestEveryRuleEndsItsTurn(t *testing.T) {
	g := newGrid(t)
	var over taskqueue.Tx
	if err := mem.New().View(t.Context(), func(tx taskqueue.Tx) error { over = tx; return nil }); err != nil {
		t.Fatal(err)
	}
	// What these are given is refused before they ask the store.
	refused := map[string]bool{"AddSite": true, "AddGrant": true, "Submit": true, "Ban": true}
	// These are asked for nothing, and do it.
	idle := map[string]bool{"RegisterFiles": true, "Tidy": true}
	rules := reflect.ValueOf(g.rules)
	called := 0
	for i := range rules.NumMethod() {
		name, rule := rules.Type().Method(i).Name, rules.Method(i)
		of := rule.Type()
		if of.NumIn() == 0 || of.In(0) != reflect.TypeFor[*taskqueue.Turn]() || of.NumOut() == 0 || of.Out(of.NumOut()-1) != reflect.TypeFor[error]() {
			continue
		}
		in := []reflect.Value{reflect.ValueOf(g.turn(over))}
		for k := 1; k < of.NumIn(); k++ {
			switch at := of.In(k); {
			case of.IsVariadic() && k == of.NumIn()-1:
				in = append(in, reflect.MakeSlice(at, 1, 1).Index(0))
			case at.Kind() == reflect.Pointer:
				in = append(in, reflect.New(at.Elem()))
			default:
				in = append(in, reflect.Zero(at))
			}
		}
		out := rule.Call(in)
		called++
		err, _ := out[len(out)-1].Interface().(error)
		if refused[name] && errors.Is(err, taskqueue.ErrInvalid) || idle[name] && err == nil {
			continue
		}
		if !errors.Is(err, taskqueue.ErrTxOver) {
			t.Errorf("%s returns %v", name, err)
		}
	}
	if called < 40 {
		t.Errorf("only %d rules were called", called)
	}
}
