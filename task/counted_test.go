package task

import "testing"

func TestCounted(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Counted(0, "task"), "0 tasks"}, {Counted(1, "task"), "1 task"}, {Counted(uint64(2), "slot change"), "2 slot changes"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}
