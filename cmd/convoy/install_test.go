package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// printed is what convoy prints with arguments.
func printed(t *testing.T, in string, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	root := rootCommand("convoy")
	root.SetArgs(args)
	root.SetIn(strings.NewReader(in))
	root.SetOut(&out)
	root.SetErr(&out)
	err := root.Execute()
	return out.String(), err
}

func TestInstallPrintsTheChartWithWhatFlagsAndFilesSay(t *testing.T) {
	values := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(values, []byte("image: of-the-file:1\ntemporal: {namespace: hub-1}\nworker: {replicas: 7}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TEMPORAL_ADDRESS", "localhost:1") // of this shell, and not of pods
	out, err := printed(t, "", "install", "-n", "delivery", "-f", values, "--image=of-the-flag:2", "--temporal-address=temporal.example:7233")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"kind: Namespace\nmetadata:\n  name: delivery\n", "image: of-the-flag:2\n", `value: "temporal.example:7233"`, `value: "hub-1"`,
		"replicas: 7\n", "kind: CustomResourceDefinition\n", "name: convoy-observer\n  namespace: delivery\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not printed", want)
		}
	}
	for _, not := range []string{"of-the-file", "localhost"} {
		if strings.Contains(out, not) {
			t.Errorf("%q is printed", not)
		}
	}
	if out, err = printed(t, "replicas: 3", "install", "--crds=false"); err != nil || strings.Contains(out, "CustomResourceDefinition") {
		t.Errorf("without CRDs: %v", err)
	}
}

func TestInstallRefusesWhatMakesNoSenseByName(t *testing.T) {
	for want, args := range map[string][]string{
		"/temporal/address":                    {"--temporal-address=temporal"},
		"'replicas' not allowed":               {"-f", "-"},
		`"A b" is no name of a namespace`:      {"-n", "A b"},
		"--values: open no-such-file":          {"-f", "no-such-file"},
		`unknown command "now" for "convoy in`: {"now"},
	} {
		out, err := printed(t, "replicas: 3", append([]string{"install"}, args...)...)
		if err == nil || !strings.Contains(err.Error(), want) || out != "" {
			t.Errorf("%v: %v, want %q; printed %q", args, err, want, out)
		}
	}
}
