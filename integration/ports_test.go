package integration

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
)

// Payloads connect neither to the queue nor to a pilot, their own or a neighbour, but to
// others; unless their pilot lets them, and pilot.walls says which it is.
func TestPayloadsReachNoPortOfPilotage(t *testing.T) {
	t.Parallel()
	g := newGrid(t, "siteA", "siteB", "siteC")
	g.openWay()
	pilots := map[string]*pilotProcess{
		"siteA": g.addPilot("siteA"), "siteB": g.addPilot("siteB", "--sandbox", "landlock"), "siteC": g.addPilot("siteC", "--payload-network", "all"),
	}
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	_, queue, _ := net.SplitHostPort(g.queueAddress())
	_, elsewhere, _ := net.SplitHostPort(other.Addr().String())
	ports := map[string]string{"queue": queue, "elsewhere": elsewhere}
	for site, p := range pilots {
		contact := g.pilot(p.id).GetContact()
		_, ports["data of "+site], _ = net.SplitHostPort(strings.TrimPrefix(contact.GetDataUrl(), "https://"))
		_, ports["overlay of "+site], _ = strings.Cut(contact.GetAddresses()[0], "/tcp/")
	}
	var tries strings.Builder
	for name, port := range ports {
		fmt.Fprintf(&tries, "if bash -c ': < /dev/tcp/127.0.0.1/%s' 2>/dev/null; then echo '%s'; fi; ", port, name)
	}
	text := "tasks:\n"
	for site := range pilots {
		text += fmt.Sprintf("  %s: {shell: %q, outputs: {%s: reached}, require: 'pilot.site == %q'}\n", site, "{ "+tries.String()+"} > reached", site, site)
	}
	id := g.submitted("reaching", text+"outputs: [siteA, siteB, siteC]\n")
	g.done(id)
	for site, p := range pilots {
		reached := strings.Split(strings.TrimSpace(g.output(id, site)), "\n")
		closed := slices.Contains(g.pilot(p.id).GetWalls(), "pilotage_ports")
		if closed != (site != "siteC") || closed && !slices.Equal(reached, []string{"elsewhere"}) || !closed && len(reached) != len(ports) {
			t.Errorf("payloads of %s reach %q; walls %v", site, reached, g.pilot(p.id).GetWalls())
		}
	}
}
