package env

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// ledger is the list, in the work folder, of the programs that run for this environment. The kernel kills them when
// their parent dies, where it can; where it cannot, the next start in the same folder finds them here.
type ledger struct {
	path string
	lock *os.File // held as long as the environment lives

	mu      sync.Mutex
	entries map[int]string // process id -> identity
}

// openLedger claims the folder and ends what a dead predecessor left running there.
func openLedger(dir string) (*ledger, error) {
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("claim the work folder: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("the work folder %s is used by another running environment: stop that one or choose another folder", dir)
		}
		return nil, fmt.Errorf("claim the work folder: %w", err)
	}
	l := &ledger{path: filepath.Join(dir, "processes.json"), lock: lock, entries: map[int]string{}}
	if err := l.clearLeftovers(); err != nil {
		_ = lock.Close()
		return nil, err
	}
	return l, nil
}

// clearLeftovers kills each recorded process that still is the one recorded.
func (l *ledger) clearLeftovers() error {
	content, err := os.ReadFile(l.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the list of processes: %w", err)
	}
	var left map[int]string
	if err := json.Unmarshal(content, &left); err != nil {
		return fmt.Errorf("read the list of processes: %w", err)
	}
	for pid, was := range left {
		if err := killIfStill(pid, was); err != nil {
			return err
		}
	}
	return l.write()
}

// killIfStill kills a process unless it is gone or its id belongs to another program by now.
func killIfStill(pid int, was string) error {
	if was == "" || identity(pid) != was {
		return nil
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("end process %d, left over from an earlier run: %w", pid, err)
	}
	return poll(10*time.Second, fmt.Sprintf("process %d, left over from an earlier run, does not end", pid), func() bool {
		return identity(pid) != was
	})
}

// poll waits until done is true. After the timeout it fails with complaint.
func poll(timeout time.Duration, complaint string, done func() bool) error {
	deadline := time.After(timeout)
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for !done() {
		select {
		case <-ticker.C:
		case <-deadline:
			return errors.New(complaint)
		}
	}
	return nil
}

func (l *ledger) add(pid int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries[pid] = identity(pid)
	return l.write()
}

func (l *ledger) remove(pid int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.entries, pid)
	_ = l.write() // an entry too many is harmless: its identity no longer fits
}

// write replaces the list on disk at once, so that a reader never sees half of it.
func (l *ledger) write() error {
	content, err := json.Marshal(l.entries)
	if err != nil {
		return fmt.Errorf("write the list of processes: %w", err)
	}
	if err := os.WriteFile(l.path+".new", content, 0o600); err != nil {
		return fmt.Errorf("write the list of processes: %w", err)
	}
	if err := os.Rename(l.path+".new", l.path); err != nil {
		return fmt.Errorf("write the list of processes: %w", err)
	}
	return nil
}

// close gives the folder up.
func (l *ledger) close() { _ = l.lock.Close() }
