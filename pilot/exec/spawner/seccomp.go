package spawner

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// dialect has the numbers of those system calls with which programs of one
// architecture get around Landlock's ports.
type dialect struct {
	architecture                                uint32
	socket, sendto, sendmsg, sendmmsg, optionOf uint32
	socketcall                                  uint32 // all of these in one, which cannot be told apart; 0: it has none
}

// dialects are what programs speak on a machine: its own first, then that of 32 bits.
var dialects = map[string][]dialect{
	"amd64": {
		{architecture: unix.AUDIT_ARCH_X86_64, socket: 41, sendto: 44, sendmsg: 46, sendmmsg: 307, optionOf: 54},
		{architecture: unix.AUDIT_ARCH_I386, socket: 359, sendto: 369, sendmsg: 370, sendmmsg: 345, optionOf: 366, socketcall: 102},
	},
	"arm64": {
		{architecture: unix.AUDIT_ARCH_AARCH64, socket: 198, sendto: 206, sendmsg: 211, sendmmsg: 269, optionOf: 208},
		{architecture: unix.AUDIT_ARCH_ARM, socket: 281, sendto: 290, sendmsg: 296, sendmmsg: 374, optionOf: 294, socketcall: 102},
	},
}

// OnlyPlainTCP closes to the calling thread and what it forks the ways around
// Landlock's ports: Multipath TCP and SMC, which end as TCP without being asked for;
// connections that begin with data (fast open); io_uring, which does all that unseen;
// and the system calls of further architectures, which say the same in other words.
func OnlyPlainTCP() error {
	spoken := dialects[runtime.GOARCH]
	if spoken == nil {
		return fmt.Errorf("limiting payloads to ports is not known on %s", runtime.GOARCH)
	}
	const number, architecture = 0, 4 // offsets in struct seccomp_data
	var f filter
	for i := range spoken {
		f.load(architecture)
		f.where(unix.BPF_JEQ, spoken[i].architecture, func() {
			f.load(number)
			f.calls(&spoken[i])
			f.end(unix.SECCOMP_RET_ALLOW)
		})
	}
	f.end(unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS))
	program := unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
	// Without the flag, kernels before Linux 5.16 slow the program down.
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_SPEC_ALLOW, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return fmt.Errorf("close the ways around the ports: %w", errno)
	}
	return nil
}

// filter is a program that looks at system calls.
type filter []unix.SockFilter

// calls refuses ways around; the number of the system call is loaded.
func (f *filter) calls(d *dialect) {
	const (
		otherNumbers = 0x40000000 // x32
		smc          = 43         // AF_SMC
		smcOverTCP   = 256        // IPPROTO_SMC
		upperLayer   = 31         // TCP_ULP, of which one is SMC
	)
	argument := func(i uint32) { f.load(16 + 8*i) } // its low half
	f.refuse(unix.BPF_JGE, otherNumbers, unix.ENOSYS)
	f.refuse(unix.BPF_JEQ, unix.SYS_IO_URING_SETUP, unix.ENOSYS) // the same everywhere
	if d.socketcall != 0 {
		f.refuse(unix.BPF_JEQ, d.socketcall, unix.ENOSYS)
	}
	call := func(number uint32, look func()) {
		f.where(unix.BPF_JEQ, number, func() {
			look()
			f.end(unix.SECCOMP_RET_ALLOW)
		})
	}
	call(d.socket, func() {
		argument(0)
		f.refuse(unix.BPF_JEQ, smc, unix.EAFNOSUPPORT)
		argument(2)
		f.refuse(unix.BPF_JEQ, unix.IPPROTO_MPTCP, unix.EPROTONOSUPPORT)
		f.refuse(unix.BPF_JEQ, smcOverTCP, unix.EPROTONOSUPPORT)
	})
	call(d.optionOf, func() {
		argument(1)
		f.where(unix.BPF_JEQ, unix.IPPROTO_TCP, func() {
			argument(2)
			f.refuse(unix.BPF_JEQ, upperLayer, unix.ENOPROTOOPT)
		})
	})
	for number, flags := range map[uint32]uint32{d.sendto: 3, d.sendmsg: 2, d.sendmmsg: 3} {
		call(number, func() {
			argument(flags)
			f.refuse(unix.BPF_JSET, unix.MSG_FASTOPEN, unix.EOPNOTSUPP)
		})
	}
}

func (f *filter) add(code uint16, k uint32, yes, no uint8) {
	*f = append(*f, unix.SockFilter{Code: code, K: k, Jt: yes, Jf: no})
}

func (f *filter) load(offset uint32) { f.add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offset, 0, 0) }

func (f *filter) end(with uint32) { f.add(unix.BPF_RET|unix.BPF_K, with, 0, 0) }

// where does what follows only where what was loaded is so.
func (f *filter) where(is uint16, value uint32, do func()) {
	at := len(*f)
	f.add(unix.BPF_JMP|is|unix.BPF_K, value, 0, 0)
	do()
	(*f)[at].Jf = uint8(len(*f) - at - 1)
}

// refuse ends with an error where what was loaded is so.
func (f *filter) refuse(is uint16, value uint32, errno unix.Errno) {
	f.where(is, value, func() { f.end(unix.SECCOMP_RET_ERRNO | uint32(errno)) })
}
