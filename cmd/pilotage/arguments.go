package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// asUsed takes the arguments that a command's Use line names, and says which one
// is missing or one too many.
func asUsed(c *cobra.Command, args []string) error {
	names, more := argumentsOf(c.Use)
	switch {
	case len(args) < len(names):
		return fmt.Errorf("%s is missing: %s\nSee: %s --help", names[len(args)], c.UseLine(), c.CommandPath())
	case len(args) > len(names) && !more && len(names) == 0:
		return fmt.Errorf("unknown command or argument %q: %s takes none\nSee: %[2]s --help", args[0], c.CommandPath())
	case len(args) > len(names) && !more:
		return fmt.Errorf("%q is one argument too many: %s\nSee: %s --help", args[len(names)], c.UseLine(), c.CommandPath())
	}
	if at := slices.Index(args[:len(names)], ""); at >= 0 {
		return fmt.Errorf("%s is empty: %s", names[at], c.UseLine())
	}
	return nil
}

// argumentsOf are the arguments of a Use line: names in capitals that are no
// flag's value. What is in brackets may be left out; with an ellipsis there may
// be more.
func argumentsOf(use string) (names []string, more bool) {
	depth, afterFlag := 0, false
	for _, word := range strings.Fields(use)[1:] {
		opened, closed := strings.Count(word, "["), strings.Count(word, "]")
		inside := depth > 0 || opened > 0
		depth += opened - closed
		more = more || strings.Contains(word, "...")
		switch {
		case strings.HasPrefix(word, "-"):
			afterFlag = true
			continue
		case !inside && !afterFlag:
			names = append(names, word)
		}
		afterFlag = false
	}
	return names, more
}
