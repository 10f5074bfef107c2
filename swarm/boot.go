package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// bootVariable says to a program that the library started where its log goes.
const bootVariable = "CORACLE_SWARM_BOOT"

// leaveStarter leaves everything that a program which the library started has of its starter: session, signal mask, descriptors. The
// library says by a variable where the log goes. The program executes itself once more, because descriptors of the Go runtime cannot be
// told from those of the starter.
func leaveStarter() {
	path := os.Getenv(bootVariable)
	if path == "" {
		return
	}
	if err := leave(path); err != nil {
		// The starter reads no output; the log may be what is missing.
		fmt.Fprintln(os.Stderr, "coracle-swarm: leave the starter:", err)
		os.Exit(1)
	}
}

func leave(path string) error {
	runtime.LockOSThread()
	// Errors: the process leads a session already.
	_, _ = unix.Setsid()
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &unix.Sigset_t{}, nil); err != nil {
		return err
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	log, err := unix.Open(filepath.Clean(path), unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	for target, from := range []int{null, null, log} {
		if err := unix.Dup3(from, target, 0); err != nil {
			return err
		}
	}
	if err := closeOthersAtExec(); err != nil {
		return err
	}
	var kept []string
	for _, one := range os.Environ() {
		if one != bootVariable+"="+path {
			kept = append(kept, one)
		}
	}
	return syscall.Exec("/proc/self/exe", os.Args, kept)
}

// closeOthersAtExec marks all descriptors but the standard ones. Linux 5.10 has no call that marks a range.
func closeOthersAtExec() error {
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, entry := range open {
		number, err := strconv.Atoi(entry.Name())
		if err != nil {
			return err
		}
		// Errors: the descriptor of the directory itself is closed by now.
		if number > 2 {
			unix.CloseOnExec(number)
		}
	}
	return nil
}

// called names the process, which may have been executed by a descriptor. It is called on the first thread.
func called(name string) {
	word, err := unix.BytePtrFromString(name)
	if err != nil {
		return
	}
	// Errors: none for a name of less than 16 bytes.
	_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(word)), 0, 0, 0)
}

func init() { called("coracle-swarm") }
