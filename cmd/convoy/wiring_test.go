package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	temporallog "go.temporal.io/sdk/log"
	"go.uber.org/fx"

	"kumodo.io/convoy/internal/dial"
)

func parsed(t *testing.T, args ...string) *config {
	t.Helper()
	var c config
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	c.bind(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return &c
}

func TestEverythingThatARoleNeedsIsProvided(t *testing.T) {
	if err := fx.ValidateApp(options(parsed(t))); err != nil {
		t.Error(err)
	}
}

func TestARunWithoutAHubSaysOnlyWhatToDo(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	const want = "no hub: give --kubeconfig, or run in a pod with a service account"
	if err := run(t.Context(), parsed(t)); err == nil || err.Error() != want {
		t.Errorf("it ended with %v, want %s", err, want)
	}
}

func TestAStepThatWasCancelledIsNoErrorInTheLog(t *testing.T) {
	var out strings.Builder
	l := steps{temporallog.NewStructuredLogger(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))}
	l.Error("Activity error.", "Attempt", 1, "Error", fmt.Errorf("run: %w", context.Canceled))
	l.Error("Activity error.", "Error", errors.New("refused"))
	lines := strings.Split(out.String(), "\n")
	if !strings.Contains(lines[0], "level=DEBUG") || !strings.Contains(lines[1], "level=ERROR") {
		t.Errorf("the log has %s", out.String())
	}
}

func TestLinesOfStepsNameTheObjectAsThoseOfTheWatcherDo(t *testing.T) {
	for id, want := range map[string]map[string]any{
		"rollout/team/web/3": {"kind": "Release", "namespace": "team", "name": "web"},
		"release/team/web":   {"kind": "Release", "namespace": "team", "name": "web"},
		"observer/team/east": {"kind": "Cluster", "namespace": "team", "name": "east"},
		"cluster/team/east":  {"kind": "Cluster", "namespace": "team", "name": "east"},
		"source/abc":         {},
	} {
		var out strings.Builder
		l := temporallog.With(steps{temporallog.NewStructuredLogger(slog.New(slog.NewJSONHandler(&out, nil)))},
			"Namespace", "hub", "TaskQueue", "convoy-apply", "WorkflowID", id, "RunID", "r-1", "ActivityType", "ApplyObjects", "Attempt", 2)
		l.Warn("retrying", "Error", errors.New("refused"))
		var line map[string]any
		if err := json.Unmarshal([]byte(out.String()), &line); err != nil {
			t.Fatal(err)
		}
		delete(line, "time")
		whole := map[string]any{
			"level": "WARN", "msg": "retrying", "temporalNamespace": "hub", "taskQueue": "convoy-apply", "workflowID": id, "runID": "r-1",
			"activityType": "ApplyObjects", "attempt": 2., "error": "refused",
		}
		maps.Copy(whole, want)
		if diff := cmp.Diff(whole, line); diff != "" {
			t.Errorf("a line of %s (-want +got):\n%s", id, diff)
		}
	}
}

func TestFlagsThatMakeNoSenseAreRefusedByName(t *testing.T) {
	cases := map[string]string{
		"--roles=dancer":                `--roles: "dancer" is not a role`,
		"--resync-period=1s":            "--resync-period must be at least 10s",
		"--probes-per-second=0":         "--probes-per-second must be above 0",
		"--probe-timeout=2m":            "--probe-timeout must be above 0 and below 1m0s",
		"--stop-timeout=-1s":            "--stop-timeout must be above 0",
		"--kustomize-concurrency=0":     "--kustomize-concurrency must be above 0",
		"--kustomize-memory=256":        "--kustomize-memory must be at least 67108864, which is 64 MiB",
		"--log-format=yaml":             `--log-format: "yaml" is neither json nor text`,
		"--roles=watcher,watchdog":      `--roles: "watchdog" is not a role`,
		"--default-service-account=A b": `--default-service-account: "A b" is no name of a service account`,
	}
	for arg, want := range cases {
		if err := parsed(t, arg).validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", arg, err, want)
		}
	}
	if err := parsed(t, "--roles=worker", "--webhook-address=:9292").validate(); err == nil || !strings.Contains(err.Error(), "--webhook-address") {
		t.Errorf("an address for webhooks without the watcher: %v", err)
	}
	if err := parsed(t, "--roles=worker", "--leader-elect").validate(); err == nil || !strings.Contains(err.Error(), "--leader-elect needs the role watcher") {
		t.Errorf("an election without the watcher: %v", err)
	}
	if err := parsed(t, "--leader-elect-namespace=here").validate(); err == nil || !strings.Contains(err.Error(), "needs --leader-elect") {
		t.Errorf("a namespace of an election that there is not: %v", err)
	}
	if err := parsed(t).validate(); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
}

func TestAddressesAreRefusedAndPermittedByFlags(t *testing.T) {
	if c := parsed(t); c.Dial.AllowLoopback || c.Dial.Deny != nil {
		t.Errorf("by default: %+v", c.Dial)
	}
	c := parsed(t, "--allow-loopback", "--deny-addresses=10.0.0.0/8, 2001:db8::/32", "--deny-addresses=192.0.2.1/32")
	want := dial.Policy{AllowLoopback: true, Deny: []netip.Prefix{
		netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("192.0.2.1/32"),
	}}
	if diff := cmp.Diff(want, c.Dial, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Errorf("policy (-want +got):\n%s", diff)
	}
	for _, list := range []string{"", "10.0.0.1", "10.0.0.0/33", "10.0.0.0/8,", "internal", "fe80::1%eth0/64", "::ffff:0:0/90"} {
		var p prefixes
		if err := p.Set(list); err == nil || !strings.Contains(err.Error(), "is no address range") {
			t.Errorf("--deny-addresses=%s: %v", list, err)
		}
	}
	if got := (*prefixes)(&c.Dial.Deny).String(); got != "10.0.0.0/8,2001:db8::/32,192.0.2.1/32" {
		t.Errorf("shown as %s", got)
	}
}

func TestFlagsOutweighTheEnvironmentForTemporal(t *testing.T) {
	t.Setenv("TEMPORAL_ADDRESS", "from-env:7233")
	t.Setenv("TEMPORAL_NAMESPACE", "from-env")
	t.Setenv("TEMPORAL_CONFIG_FILE", "")
	o, err := parsed(t, "--temporal-namespace=from-flag").Temporal.options()
	if err != nil {
		t.Fatal(err)
	}
	if o.HostPort != "from-env:7233" || o.Namespace != "from-flag" {
		t.Errorf("address %s and namespace %s, want those of the environment and of the flag", o.HostPort, o.Namespace)
	}
}

func TestWithoutAHubTheErrorSaysWhatToGive(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	if _, err := parsed(t).hub(); err == nil || !strings.Contains(err.Error(), "--kubeconfig") {
		t.Errorf("error %v does not name --kubeconfig", err)
	}
}

type hosts []string

func (h *hosts) Increment(_ context.Context, _, _, host string) { *h = append(*h, host) }

func TestTheClientsMetricsNameTheHubAndNoTarget(t *testing.T) {
	var seen hosts
	m := &hubMetrics{next: &seen, hub: "hub:6443"}
	m.Increment(t.Context(), "200", "GET", "hub:6443")
	m.Increment(t.Context(), "200", "GET", "named-by-a-tenant.example")
	if want := []string{"hub:6443", "target"}; !slices.Equal(seen, want) {
		t.Errorf("hosts %v, want %v", seen, want)
	}
}
