package task

import "fmt"

// Counted is a number with its noun, as messages say it: "1 task", "3 tasks".
func Counted[N ~int | ~int32 | ~int64 | ~uint32 | ~uint64](n N, noun string) string {
	if n == 1 {
		return fmt.Sprintf("%d %s", n, noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
