package matcher

import (
	"strconv"
	"strings"
)

// Elsewhere is a requirement that leaves out worker nodes, by host name: that
// of a task that has failed there.
func Elsewhere(require string, nodes []string) string {
	if len(nodes) == 0 {
		return require
	}
	var clauses []string
	for _, node := range nodes {
		clauses = append(clauses, "pilot.host != "+strconv.QuoteToASCII(node))
	}
	if strings.TrimSpace(require) != "" {
		clauses = append(clauses, "("+require+"\n)") // it may end in a comment
	}
	return strings.Join(clauses, " && ")
}
