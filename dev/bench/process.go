package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ticks is how many clock ticks of /proc a second has: the same on every Linux that Go runs on.
const ticks = 100

// cpuSeconds is the CPU time, user and system, of processes since they started.
func cpuSeconds(pids []int) (float64, error) {
	var sum float64
	for _, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return 0, fmt.Errorf("read the CPU time: %w", err)
		}
		seconds, err := parseStat(stat)
		if err != nil {
			return 0, err
		}
		sum += seconds
	}
	return sum, nil
}

// parseStat reads the CPU time from the content of /proc/<pid>/stat.
func parseStat(stat []byte) (float64, error) {
	const utime, stime = 11, 12 // counted after the name, which may hold blanks and parentheses
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= stime {
		return 0, errors.New("read the CPU time: too few fields")
	}
	var sum float64
	for _, field := range fields[utime : stime+1] {
		n, err := strconv.ParseUint(string(field), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read the CPU time: %w", err)
		}
		sum += float64(n) / ticks
	}
	return sum, nil
}

// busySeconds is the CPU time that the machine spent on anything since it started, stolen time included.
func busySeconds() (float64, error) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, fmt.Errorf("read the CPU time of the machine: %w", err)
	}
	return parseBusy(stat)
}

// parseBusy reads the busy time of all CPUs from the content of /proc/stat.
func parseBusy(stat []byte) (float64, error) {
	const idle, iowait, steal = 4, 5, 8
	first, _, _ := bytes.Cut(stat, []byte("\n"))
	fields := bytes.Fields(first)
	if len(fields) <= steal || string(fields[0]) != "cpu" {
		return 0, errors.New("read the CPU time of the machine: it has another form")
	}
	var sum float64
	for i, field := range fields[:steal+1] { // what follows is of guests, and counted above already
		if i == 0 || i == idle || i == iowait {
			continue
		}
		n, err := strconv.ParseUint(string(field), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read the CPU time of the machine: %w", err)
		}
		sum += float64(n) / ticks
	}
	return sum, nil
}

// resetPeak makes the present memory of processes their peak.
func resetPeak(pids []int) error {
	for _, pid := range pids {
		if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0); err != nil {
			return fmt.Errorf("reset the peak of memory: %w", err)
		}
	}
	return nil
}

// peakMiB is the peak of the resident memory of processes since it was reset, in MiB; the peaks of several are added.
func peakMiB(pids []int) (float64, error) {
	var sum float64
	for _, pid := range pids {
		mib, err := memoryMiB(pid, "VmHWM")
		if err != nil {
			return 0, err
		}
		sum += mib
	}
	return sum, nil
}

// memoryMiB reads a field of the memory of a process, in MiB.
func memoryMiB(pid int, field string) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("read the memory: %w", err)
	}
	return parseMemory(string(status), field)
}

// parseMemory reads a field, such as VmHWM, from the content of /proc/<pid>/status, in MiB.
func parseMemory(status, field string) (float64, error) {
	for line := range strings.Lines(status) {
		value, ok := strings.CutPrefix(line, field+":")
		if !ok {
			continue
		}
		kib, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read the memory: %w", err)
		}
		return float64(kib) / 1024, nil
	}
	return 0, errors.New("read the memory: the process has ended")
}

// sockets counts the sockets that a process has open.
func sockets(pid int) (int, error) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	open, err := os.ReadDir(dir)
	if err != nil {
		return 0, fmt.Errorf("count the sockets: %w", err)
	}
	n := 0
	for _, fd := range open {
		to, err := os.Readlink(filepath.Join(dir, fd.Name()))
		if err == nil && strings.HasPrefix(to, "socket:") { // one that was closed meanwhile has no target
			n++
		}
	}
	return n, nil
}
