package experiment

import "testing"

// Each kind of sentence has bounds on both sides, or needs more than a tie.
func TestVerdictsHaveBoundsOnBothSides(t *testing.T) {
	for _, c := range []struct {
		name string
		got  Verdict
		want Verdict
	}{
		{"a number", Number(5.9, 5), Yes}, {"too large", Number(6.1, 5), No}, {"too small", Number(3.9, 5), No},
		{"a negative number", Number(-0.25, -0.28), Yes}, {"half of about 20 s", Number(10, 20), No},
		{"a larger gain", Ratio(5.57, 3.59), No}, {"a smaller gain", Ratio(0.78, 0.67), No}, {"a gain", Ratio(3.30, 3.59), Yes},
		{"a ratio twice as large", Ratio(0.2, 0.1), No},
		{"alike", Alike(0.91, 1), Yes}, {"not alike", Alike(1.11, 1), No}, {"nor below", Alike(0.89, 1), No},
		{"a tie is not more", More(100.5, 100), No}, {"more", More(102, 100), Yes}, {"less", More(98, 100), No},
		{"more of a loss", More(-0.5, -1), Yes}, {"more is not much", Much(1.4, 1), No}, {"much", Much(1.5, 1), Yes}, {"nothing is not much", Much(0, 0), No},
		{"fitted", Yes.ByChoice(), Fitted}, {"not even fitted", No.ByChoice(), No}, {"both", Fitted.And(Yes), Fitted}, {"one of both", Yes.And(No), No},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", c.name, c.got, c.want)
		}
	}
}
