package integration

import (
	native "encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// network joins hosts, each a network namespace of its own, through a router:
// the namespace that the test runs in. What is cut is dropped there without a
// word, as by a broken line.
type network struct {
	hosts int
	rules map[[2]string]int // who is cut off from whom, and how often
}

// host is a machine of the network.
type host struct {
	address   string
	namespace *os.File // nil where namespaces are not allowed: the test's own
}

const router = "10.77.0.1"

// newNetwork makes the test's own namespace the router.
func newNetwork() (*network, error) {
	for _, setting := range []string{"ip_forward", "conf/default/forwarding"} {
		if err := os.WriteFile("/proc/sys/net/ipv4/"+setting, []byte("1"), 0o600); err != nil {
			return nil, err
		}
	}
	w := &network{rules: make(map[[2]string]int)}
	return w, errors.Join(linkUp("lo"), addAddress("lo", router))
}

// add makes a host with an address.
func (w *network) add(address string) (*host, error) {
	w.hosts++
	h, here := &host{address: address}, fmt.Sprintf("host%d", w.hosts)
	err := apart(func() (err error) {
		if err = unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("unshare: %w", err)
		}
		h.namespace, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	if err == nil {
		err = addPair(here, "net0", h.namespace)
	}
	if err == nil {
		err = errors.Join(linkUp(here), addRoute(address, here, ""))
	}
	if err == nil {
		err = h.in(func() error {
			return errors.Join(linkUp("lo"), linkUp("net0"), addAddress("net0", address), addRoute("", "net0", router))
		})
	}
	if err != nil {
		return nil, fmt.Errorf("make the host %s: %w", address, err)
	}
	return h, nil
}

// in does something on the host: sockets that it opens and processes that it
// starts are there.
func (h *host) in(do func() error) error {
	if h.namespace == nil {
		return do()
	}
	return apart(func() error {
		if err := unix.Setns(int(h.namespace.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("setns: %w", err)
		}
		return do()
	})
}

// apart does something in a thread that may change its namespace, and brings
// the thread back.
func apart(do func() error) error {
	runtime.LockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer func() { _ = home.Close() }()
	err = do()
	if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back != nil {
		return errors.Join(err, back) // the thread stays locked: nobody else gets it
	}
	runtime.UnlockOSThread()
	return err
}

// cut drops what one group of hosts and another one send each other, until heal
// is called.
func (w *network) cut(some, others []*host) (heal func() error, err error) {
	var cut [][2]string
	heal = func() error {
		var failed error
		for _, pair := range cut {
			if w.rules[pair]--; w.rules[pair] == 0 {
				failed = errors.Join(failed, dropRule(unix.RTM_DELRULE, pair))
			}
		}
		return failed
	}
	for _, a := range some {
		for _, b := range others {
			for _, pair := range [][2]string{{a.address, b.address}, {b.address, a.address}} {
				if w.rules[pair]++; w.rules[pair] == 1 {
					if err := dropRule(unix.RTM_NEWRULE, pair); err != nil {
						return heal, err
					}
				}
				cut = append(cut, pair)
			}
		}
	}
	return heal, nil
}

// dropRule is `ip rule add from A to B blackhole`, or its removal.
func dropRule(kind uint16, pair [2]string) error {
	header := []byte{unix.AF_INET, 32, 32, 0, 0, 0, 0, unix.FR_ACT_BLACKHOLE, 0, 0, 0, 0}
	return ask(kind, header, attribute(unix.FRA_SRC, ip4(pair[0])), attribute(unix.FRA_DST, ip4(pair[1])))
}

// addPair is `ip link add HERE type veth peer name THERE netns FILE`.
func addPair(here, there string, namespace *os.File) error {
	const peer = 1 // VETH_INFO_PEER
	other := append(linkHeader(0, 0), attribute(unix.IFLA_IFNAME, append([]byte(there), 0))...)
	other = append(other, attribute(unix.IFLA_NET_NS_FD, native.NativeEndian.AppendUint32(nil, uint32(namespace.Fd())))...)
	info := append(attribute(unix.IFLA_INFO_KIND, []byte("veth")), attribute(unix.IFLA_INFO_DATA, attribute(peer, other))...)
	return ask(unix.RTM_NEWLINK, linkHeader(0, 0), attribute(unix.IFLA_IFNAME, append([]byte(here), 0)), attribute(unix.IFLA_LINKINFO, info))
}

func linkUp(name string) error {
	index, err := linkIndex(name)
	if err != nil {
		return err
	}
	return ask(unix.RTM_NEWLINK, linkHeader(index, unix.IFF_UP))
}

func addAddress(link, address string) error {
	index, err := linkIndex(link)
	if err != nil {
		return err
	}
	header := native.NativeEndian.AppendUint32([]byte{unix.AF_INET, 32, 0, unix.RT_SCOPE_UNIVERSE}, index)
	return ask(unix.RTM_NEWADDR, header, attribute(unix.IFA_LOCAL, ip4(address)), attribute(unix.IFA_ADDRESS, ip4(address)))
}

// addRoute is `ip route add TO dev LINK`, or `default via GATEWAY dev LINK onlink`.
func addRoute(to, link, gateway string) error {
	index, err := linkIndex(link)
	if err != nil {
		return err
	}
	bits, scope, flags := byte(32), byte(unix.RT_SCOPE_LINK), uint32(0)
	var attributes [][]byte
	if to != "" {
		attributes = append(attributes, attribute(unix.RTA_DST, ip4(to)))
	} else {
		bits, scope, flags = 0, unix.RT_SCOPE_UNIVERSE, unix.RTNH_F_ONLINK
		attributes = append(attributes, attribute(unix.RTA_GATEWAY, ip4(gateway)))
	}
	header := []byte{unix.AF_INET, bits, 0, 0, unix.RT_TABLE_MAIN, unix.RTPROT_STATIC, scope, unix.RTN_UNICAST}
	header = native.NativeEndian.AppendUint32(header, flags)
	return ask(unix.RTM_NEWROUTE, header, append(attributes, attribute(unix.RTA_OIF, native.NativeEndian.AppendUint32(nil, index)))...)
}

func linkIndex(name string) (uint32, error) {
	link, err := net.InterfaceByName(name)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return uint32(link.Index), nil
}

func linkHeader(index, flags uint32) []byte {
	header := native.NativeEndian.AppendUint32([]byte{unix.AF_UNSPEC, 0, 0, 0}, index)
	header = native.NativeEndian.AppendUint32(header, flags)
	return native.NativeEndian.AppendUint32(header, flags) // the flags that change
}

func ip4(address string) []byte { return net.ParseIP(address).To4() }

func attribute(kind uint16, value []byte) []byte {
	text := native.NativeEndian.AppendUint16(nil, uint16(4+len(value)))
	text = append(native.NativeEndian.AppendUint16(text, kind), value...)
	return append(text, make([]byte, -len(value)&3)...)
}

// ask sends one request to the kernel's routing and waits for its answer.
func ask(kind uint16, header []byte, attributes ...[]byte) error {
	body := header
	for _, a := range attributes {
		body = append(body, a...)
	}
	flags := uint16(unix.NLM_F_REQUEST | unix.NLM_F_ACK)
	if kind != unix.RTM_DELRULE {
		flags |= unix.NLM_F_CREATE
	}
	message := native.NativeEndian.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(body)))
	message = native.NativeEndian.AppendUint16(message, kind)
	message = native.NativeEndian.AppendUint16(message, flags)
	message = append(append(message, make([]byte, 8)...), body...)
	socket, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(socket) }()
	if err := unix.Sendto(socket, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(socket, answer, 0)
	if err != nil {
		return err
	}
	if n < unix.SizeofNlMsghdr+4 || native.NativeEndian.Uint16(answer[4:]) != unix.NLMSG_ERROR {
		return fmt.Errorf("an answer of %d bytes to request %d", n, kind)
	}
	if code := int32(native.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:])); code != 0 {
		return fmt.Errorf("request %d: %w", kind, syscall.Errno(-code))
	}
	return nil
}

// addresses tells who is cut off, for the story.
func addresses(hosts []*host) string {
	var list []string
	for _, h := range hosts {
		list = append(list, h.address)
	}
	return strings.Join(list, ",")
}
