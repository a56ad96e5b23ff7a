package replica

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

var plannerPattern = regexp.MustCompile(`^([a-z]+)(?:\(([^()]*)\))?$`)

// ParseChain reads policies in their order, separated by semicolons or line
// ends: alpha(N), plans(THRESHOLD SECONDS,TASK LIMIT[,eliminate]) and fcfs.
// The empty text is a chain that decides nothing.
func ParseChain(text string) (Chain, error) {
	var chain Chain
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == ';' || r == '\n' }) {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		planner, err := parsePlanner(part)
		if err != nil {
			return nil, fmt.Errorf("replica policy %q: %w", part, err)
		}
		chain = append(chain, planner)
	}
	return chain, nil
}

func parsePlanner(text string) (Planner, error) {
	found := plannerPattern.FindStringSubmatch(text)
	if found == nil {
		return nil, fmt.Errorf("give alpha(N), plans(SECONDS,LIMIT) or fcfs")
	}
	var arguments []string
	for _, argument := range strings.Split(found[2], ",") {
		if argument = strings.TrimSpace(argument); argument != "" {
			arguments = append(arguments, argument)
		}
	}
	switch found[1] {
	case "fcfs":
		if len(arguments) > 0 {
			return nil, fmt.Errorf("fcfs takes no arguments")
		}
		return FCFS{}, nil
	case "alpha":
		return parseAlpha(arguments)
	case "plans":
		return parsePlans(arguments)
	}
	return nil, fmt.Errorf("give alpha(N), plans(SECONDS,LIMIT) or fcfs")
}

func parseAlpha(arguments []string) (Planner, error) {
	if len(arguments) == 1 {
		if alpha, err := strconv.Atoi(arguments[0]); err == nil && alpha >= 0 {
			return Alpha{alpha}, nil
		}
	}
	return nil, fmt.Errorf("give the tasks that one replica serves, 0 for a replica on every node, for example alpha(15)")
}

func parsePlans(arguments []string) (Planner, error) {
	eliminate := len(arguments) == 3 && arguments[2] == "eliminate"
	if len(arguments) == 2 || eliminate {
		threshold, err := strconv.ParseFloat(arguments[0], 64)
		limit, limitErr := strconv.Atoi(arguments[1])
		if err == nil && limitErr == nil && threshold >= 0 && limit >= 1 {
			return NewPlans(PlanSettings{Threshold: threshold, TaskLimit: limit, Eliminate: eliminate}), nil
		}
	}
	return nil, fmt.Errorf("give the threshold in seconds of waiting work and the tasks per plan, for example plans(600,8) or plans(600,8,eliminate)")
}
