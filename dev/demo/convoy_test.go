package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

func TestOnlyAConvoyOfThisWorkFolderIsTakenForALeftover(t *testing.T) {
	for name, mark := range map[string]bool{"of this folder": true, "of another folder": false} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			mine := filepath.Join(dir, "hub.kubeconfig")
			argument := "/elsewhere/hub.kubeconfig"
			if mark {
				argument = mine
			}
			cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", "read -r line", "convoy", "run", "--kubeconfig="+argument)
			stdin, err := cmd.StdinPipe() // the program ends with it
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			pidFile := filepath.Join(dir, "convoy.pid")
			if err := os.WriteFile(pidFile, []byte(strconv.Itoa(cmd.Process.Pid)), 0o600); err != nil {
				t.Fatal(err)
			}
			endLeftover(t.Context(), pidFile, mine)
			if err := stdin.Close(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
			if !ok {
				t.Fatalf("the state is %T", cmd.ProcessState.Sys())
			}
			if killed := status.Signaled(); killed != mark {
				t.Errorf("killed: %t, want %t", killed, mark)
			}
		})
	}
}
