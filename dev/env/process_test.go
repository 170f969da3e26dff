package env

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// childDir names the work folder of an environment that this test binary, started again, runs until it is killed.
const childDir = "CONVOY_ENV_TEST_DIR"

func runChild() {
	e, err := Start(context.Background(), Options{Dir: os.Getenv(childDir)})
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	pids := e.Hub.PIDs()
	maps.Copy(pids, e.Temporal.PIDs())
	if err := json.NewEncoder(os.Stdout).Encode(pids); err != nil {
		os.Exit(1)
	}
	select {}
}

func TestAKilledParentLeavesNothingRunning(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, readErr := bufio.NewReader(stdout).ReadString('\n')
	if _, err := Start(t.Context(), Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "used by another") {
		t.Errorf("a second environment in the same folder: %v, want a refusal", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	var pids map[string]int
	if err := json.Unmarshal([]byte(line), &pids); err != nil {
		t.Fatalf("the child says %q: %v, %v", line, err, readErr)
	}
	if len(pids) != 3 {
		t.Errorf("the child runs %v, want etcd, API server and Temporal", pids)
	}
	if runtime.GOOS != "linux" { // where the kernel does not do it, the next start does
		ledger, err := openLedger(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer ledger.close()
	}
	for name, pid := range pids {
		eventually(t, name+" ends", func(context.Context) error {
			if was := identity(pid); was != "" {
				return errors.New("it still runs: " + was)
			}
			return nil
		})
	}
}

func sleeper(t *testing.T, l *ledger, script string) *process {
	t.Helper()
	dir := t.TempDir()
	return &process{
		name: "script", path: "/bin/sh", args: []string{"-c", script}, dir: dir, logPath: filepath.Join(dir, "log"),
		grace: 200 * time.Millisecond, ledger: l, report: func(string, ...any) {},
	}
}

func TestTheNextStartEndsWhatADeadParentLeft(t *testing.T) {
	dir := t.TempDir()
	first, err := openLedger(dir)
	if err != nil {
		t.Fatal(err)
	}
	left := sleeper(t, first, "")
	left.path, left.args = "/bin/sleep", []string{"600"}
	if err := left.start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = left.kill() }()
	pid := left.pid()
	// This program itself stands for a process that got the id of an ended one.
	first.mu.Lock()
	first.entries[os.Getpid()] = "etcd 1 another-boot"
	err = first.write()
	first.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	first.close()

	second, err := openLedger(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer second.close()
	if identity(pid) != "" {
		t.Error("the program left over still runs")
	}
}

func TestAProgramThatIgnoresTheRequestToEndIsKilled(t *testing.T) {
	l, err := openLedger(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	p := sleeper(t, l, "trap '' TERM; echo ready; while :; do sleep 1; done")
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the program ignores the signal", func(context.Context) error {
		if tail := p.logTail(); tail != "ready" {
			return errors.New(tail)
		}
		return nil
	})
	pid := p.pid()
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
	if identity(pid) != "" {
		t.Error("the program still runs")
	}
	if err := p.stop(); err != nil {
		t.Errorf("stopping a stopped program: %v", err)
	}
}

func TestAProgramThatEndsWhileStartingIsReportedWithItsLog(t *testing.T) {
	l, err := openLedger(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	p := sleeper(t, l, "echo no such flag; exit 3")
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
	err = p.waitReady(t.Context(), func(context.Context) error { return errors.New("not yet") })
	if err == nil || !strings.Contains(err.Error(), "no such flag") {
		t.Errorf("the error is %v, want the log's last line in it", err)
	}
}

func TestTwoReservationsNeverShareAPort(t *testing.T) {
	ports, err := reservePorts(50)
	if err != nil {
		t.Fatal(err)
	}
	defer releasePorts(ports)
	seen := map[int]bool{}
	for _, p := range ports {
		if seen[p.number] {
			t.Errorf("port %d is given twice", p.number)
		}
		seen[p.number] = true
		dir := filepath.Dir(p.lock.Name())
		if again, err := tryPort(dir, p.number); err == nil {
			releasePorts([]*port{again})
			t.Errorf("port %d can be taken while it is reserved", p.number)
		}
	}
}
