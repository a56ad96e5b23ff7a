package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pilotage-grid/pilotage/sim/grid"
	"github.com/pilotage-grid/pilotage/task"
)

// siteKeys set one thing of a simulated site each; those of nodes are set on the
// node that is then repeated.
var siteKeys = map[string]func(s *grid.Site, n *grid.Node, nodes *int, value string) error{
	"nodes":   func(_ *grid.Site, _ *grid.Node, nodes *int, v string) error { return parseCount(v, nodes) },
	"slots":   func(_ *grid.Site, n *grid.Node, _ *int, v string) error { return parseCount(v, &n.Slots) },
	"cores":   func(_ *grid.Site, n *grid.Node, _ *int, v string) error { return parseCount(v, &n.Cores) },
	"memory":  func(_ *grid.Site, n *grid.Node, _ *int, v string) error { return parseSize(v, &n.Memory) },
	"cache":   func(_ *grid.Site, n *grid.Node, _ *int, v string) error { return parseSize(v, &n.Cache) },
	"speed":   func(_ *grid.Site, n *grid.Node, _ *int, v string) error { return parseRate(v, &n.Speed) },
	"network": func(_ *grid.Site, n *grid.Node, _ *int, v string) error { return parseRate(v, &n.Bandwidth) },
	"storage": func(s *grid.Site, _ *grid.Node, _ *int, v string) error { return parseRate(v, &s.StorageBandwidth) },
	"wide":    func(s *grid.Site, _ *grid.Node, _ *int, v string) error { return parseRate(v, &s.WideBandwidth) },
	"serial": func(s *grid.Site, _ *grid.Node, _ *int, v string) error {
		s.OneAtATime = v == "yes"
		if v != "yes" && v != "no" {
			return fmt.Errorf("is %q: give yes or no", v)
		}
		return nil
	},
	"fail": func(_ *grid.Site, n *grid.Node, _ *int, v string) (err error) {
		if n.FailsAt, err = time.ParseDuration(v); err == nil && n.FailsAt <= 0 {
			err = fmt.Errorf("%s is not after the start", v)
		}
		return err
	},
}

func parseCount(text string, into *int) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 100_000 {
		return fmt.Errorf("is %q: give a number from 1 to 100000", text)
	}
	*into = n
	return nil
}

func parseRate(text string, into *float64) error {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || !(x > 0) || x > 1e18 {
		return fmt.Errorf("is %q: give a number above 0", text)
	}
	*into = x
	return nil
}

func parseSize(text string, into *task.Bytes) (err error) {
	*into, err = task.ParseBytes(text)
	return err
}

// parseSites reads the --site flags.
func parseSites(texts []string) ([]grid.Site, error) {
	var sites []grid.Site
	for _, text := range texts {
		site, err := parseSite(text)
		if err != nil {
			return nil, fmt.Errorf("--site %s: %w", text, err)
		}
		if slices.ContainsFunc(sites, func(s grid.Site) bool { return s.Name == site.Name }) {
			return nil, fmt.Errorf("--site %s: there are two sites of this name", site.Name)
		}
		sites = append(sites, site)
	}
	return sites, nil
}

func parseSite(text string) (grid.Site, error) {
	parts := strings.Split(text, ",")
	name, err := task.ParseSite(parts[0])
	if err != nil {
		return grid.Site{}, err
	}
	site, node, nodes := grid.DefaultSite(name), grid.DefaultNode(), 4
	node.Cores = 0
	for _, part := range parts[1:] {
		key, value, _ := strings.Cut(part, "=")
		set, known := siteKeys[key]
		if !known {
			return site, fmt.Errorf("key %q is not known (pilotage sim run --help lists them)", key)
		}
		if err := set(&site, &node, &nodes, value); err != nil {
			return site, fmt.Errorf("%s %w", key, err)
		}
	}
	if node.Cores == 0 {
		node.Cores = node.Slots
	}
	for i := range nodes {
		site.Nodes = append(site.Nodes, node)
		if i > 0 {
			site.Nodes[i].FailsAt = 0
		}
	}
	return site, nil
}

func namesOf(sites []grid.Site) string {
	names := make([]string, len(sites))
	for i := range sites {
		names[i] = string(sites[i].Name)
	}
	return strings.Join(names, ", ")
}

// changeSites applies a what-if to copies of the sites; "" changes nothing.
func changeSites(sites []grid.Site, change string) ([]grid.Site, error) {
	changed := slices.Clone(sites)
	for i := range changed {
		changed[i].Nodes = slices.Clone(sites[i].Nodes)
	}
	if change == "" {
		return changed, nil
	}
	key, value, _ := strings.Cut(change, "=")
	if key == "down" {
		left := slices.DeleteFunc(changed, func(s grid.Site) bool { return string(s.Name) == value })
		switch len(left) {
		case len(sites):
			return nil, fmt.Errorf("--what-if %s: there is no site %q: name one of %s", change, value, namesOf(sites))
		case 0:
			return nil, fmt.Errorf("--what-if %s: no site would be left: give several with --site", change)
		}
		return left, nil
	}
	factor, err := strconv.ParseFloat(strings.TrimSuffix(value, "x"), 64)
	if err != nil || !(factor > 0) || factor > 1e6 || !strings.HasSuffix(value, "x") {
		return nil, fmt.Errorf("--what-if %s: give a factor such as cache=2x, or down=SITE", change)
	}
	for i := range changed {
		if err := scaleSite(&changed[i], key, factor); err != nil {
			return nil, fmt.Errorf("--what-if %s: %w", change, err)
		}
	}
	return changed, nil
}

func scaleSite(s *grid.Site, key string, factor float64) error {
	count := func(n int) int { return max(1, int(float64(n)*factor+0.5)) }
	switch key {
	case "storage":
		s.StorageBandwidth *= factor
		return nil
	case "wide":
		s.WideBandwidth *= factor
		return nil
	case "nodes":
		nodes := make([]grid.Node, count(len(s.Nodes)))
		for i := range nodes {
			nodes[i] = s.Nodes[i%len(s.Nodes)]
		}
		s.Nodes = nodes
		return nil
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		switch key {
		case "cache":
			n.Cache = max(1, task.Bytes(float64(n.Cache)*factor))
		case "slots":
			n.Slots, n.Cores = count(n.Slots), count(n.Cores)
		case "speed":
			n.Speed *= factor
		case "network":
			n.Bandwidth *= factor
		default:
			return fmt.Errorf("%q cannot be changed: give cache, nodes, slots, speed, network, storage, wide or down", key)
		}
	}
	return nil
}
