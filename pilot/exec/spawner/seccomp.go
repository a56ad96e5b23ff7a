package spawner

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// OnlyPlainTCP closes to the calling thread and what it forks the ways around
// Landlock's ports: Multipath TCP and SMC, which end as TCP without being asked for;
// connections that begin with data (fast open); io_uring, which does all that
// unseen; and the system calls of other architectures, which say the same in other
// words.
func OnlyPlainTCP() error {
	arch, known := map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}[runtime.GOARCH]
	if !known {
		return fmt.Errorf("limiting payloads to ports is not known on %s", runtime.GOARCH)
	}
	const (
		number, architecture = 0, 4 // of struct seccomp_data
		otherNumbers         = 0x40000000
		smc                  = 43
	)
	argument := func(i uint32) uint32 { return 16 + 8*i } // its low half
	var f filter
	f.load(architecture)
	f.refuse(unix.BPF_JEQ, arch, unix.ENOSYS, true)
	f.load(number)
	f.refuse(unix.BPF_JGE, otherNumbers, unix.ENOSYS, false)
	f.refuse(unix.BPF_JEQ, unix.SYS_IO_URING_SETUP, unix.ENOSYS, false)
	f.call(unix.SYS_SOCKET, func() {
		f.load(argument(0))
		f.refuse(unix.BPF_JEQ, smc, unix.EAFNOSUPPORT, false)
		f.load(argument(2))
		f.refuse(unix.BPF_JEQ, unix.IPPROTO_MPTCP, unix.EPROTONOSUPPORT, false)
	})
	for call, flags := range map[uint32]uint32{unix.SYS_SENDTO: 3, unix.SYS_SENDMSG: 2, unix.SYS_SENDMMSG: 3} {
		f.call(call, func() {
			f.load(argument(flags))
			f.refuse(unix.BPF_JSET, unix.MSG_FASTOPEN, unix.EOPNOTSUPP, false)
		})
	}
	f.add(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ALLOW, 0, 0)
	program := unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0); err != nil {
		return fmt.Errorf("close the ways around the ports: %w", err)
	}
	return nil
}

// filter is a program that looks at system calls.
type filter []unix.SockFilter

func (f *filter) add(code uint16, k uint32, yes, no uint8) {
	*f = append(*f, unix.SockFilter{Code: code, K: k, Jt: yes, Jf: no})
}

func (f *filter) load(offset uint32) { f.add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offset, 0, 0) }

// refuse ends with an error where what was loaded is so, or unless it is.
func (f *filter) refuse(is uint16, value uint32, errno unix.Errno, unless bool) {
	yes, no := uint8(0), uint8(1)
	if unless {
		yes, no = no, yes
	}
	f.add(unix.BPF_JMP|is|unix.BPF_K, value, yes, no)
	f.add(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ERRNO|uint32(errno), 0, 0)
}

// call looks further at one system call, whose number is loaded before and after.
func (f *filter) call(number uint32, look func()) {
	at := len(*f)
	f.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, number, 0, 0)
	look()
	f.load(0)
	(*f)[at].Jf = uint8(len(*f) - at - 1)
}
