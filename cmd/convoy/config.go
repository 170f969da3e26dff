package main

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kumodo.io/convoy/internal/connect"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/dial"
	"kumodo.io/convoy/internal/hook"
	"kumodo.io/convoy/internal/render"
	"kumodo.io/convoy/internal/source"
	"kumodo.io/convoy/workflows"
)

// The roles of a process.
const (
	roleWatcher  = "watcher"
	roleWorker   = "worker"
	roleObserver = "observer"
)

// leaseName is the Lease that the leading watcher holds.
const leaseName = "convoy-watcher"

var roles = []string{roleWatcher, roleWorker, roleObserver}

// config is everything that flags and environment decide.
type config struct {
	Roles           []string
	Kubeconfig      string
	ResyncPeriod    time.Duration
	ProbesPerSecond float64
	StopTimeout     time.Duration
	// ObserverTenure, ObserverAudit and ObserverClusters are of the role observer.
	ObserverTenure   time.Duration
	ObserverAudit    time.Duration
	ObserverClusters int
	HealthAddress    string
	MetricsAddress   string
	PprofAddress     string
	WebhookAddress   string
	// LeaderElect has one of several watchers lead, by a Lease in LeaderElectNamespace.
	LeaderElect          bool
	LeaderElectNamespace string
	LogFormat            string
	Verbose              bool
	Temporal             temporalFlags
	Dial                 dial.Policy
	Connect              connect.Options
	Sources              source.Limits
	Builds               render.BuildLimits
	ServiceAccounts      delivery.ServiceAccounts
	Hooks                hook.Permits
}

// temporalFlags outweigh the TEMPORAL_* environment when they are set.
type temporalFlags struct {
	Address   string
	Namespace string
	Profile   string
	File      string
}

func (t *temporalFlags) bind(f *pflag.FlagSet) {
	f.StringVar(&t.Address, "temporal-address", "", "host:port of Temporal; else TEMPORAL_ADDRESS")
	f.StringVar(&t.Namespace, "temporal-namespace", "", "namespace of Temporal; else TEMPORAL_NAMESPACE")
	f.StringVar(&t.Profile, "temporal-profile", "", "profile of the Temporal configuration file; else TEMPORAL_PROFILE")
	f.StringVar(&t.File, "temporal-config-file", "", "Temporal configuration file; else TEMPORAL_CONFIG_FILE")
}

func (c *config) bind(f *pflag.FlagSet) {
	f.StringSliceVar(&c.Roles, "roles", roles, "what this process does: watcher, worker, observer, or several of them")
	f.StringVar(&c.Kubeconfig, "kubeconfig", "", "kubeconfig of the hub; the service account of the pod when empty")
	f.DurationVar(&c.ResyncPeriod, "resync-period", 10*time.Minute, "time after which every Cluster is probed again")
	f.Float64Var(&c.ProbesPerSecond, "probes-per-second", 50, "retrying probes per second, over all Clusters and workers")
	f.DurationVar(&c.StopTimeout, "stop-timeout", 20*time.Second, "time that running steps have to end when the process stops; keep it below the grace period of the pod")
	f.StringVar(&c.HealthAddress, "health-address", ":8081", "address of /healthz and /readyz; 0 for none")
	f.StringVar(&c.MetricsAddress, "metrics-address", ":8080", "address of /metrics; 0 for none")
	f.StringVar(&c.PprofAddress, "pprof-address", "", "address of the profiles of the Go runtime, such as localhost:6060: they hold what is in memory; none when empty")
	f.StringVar(&c.WebhookAddress, "webhook-address", "", "address at which the watcher is told of pushes, such as :9292; none when empty")
	f.BoolVar(&c.LeaderElect, "leader-elect", false, "let one of several watchers lead while the others stand by")
	f.StringVar(&c.LeaderElectNamespace, "leader-elect-namespace", "", "namespace of the Lease "+leaseName+"; the one of the pod when empty")
	f.StringVar(&c.LogFormat, "log-format", "json", "json or text")
	f.BoolVar(&c.Verbose, "verbose", false, "log more")
	f.DurationVar(&c.Connect.ProbeTimeout, "probe-timeout", 20*time.Second, "total time of one probe of a Cluster")
	f.IntVar(&c.Connect.Concurrency, "cluster-concurrency", 32, "steps that work on one Cluster at once, in this process")
	c.bindAccounts(f)
	f.DurationVar(&c.ObserverTenure, "observer-tenure", 30*time.Minute, "about how long one observer keeps a Cluster before it is placed anew, so that new ones get their share")
	f.DurationVar(&c.ObserverAudit, "observer-audit", time.Hour, "how often an observer lists everything anew")
	f.IntVar(&c.ObserverClusters, "observer-clusters", 500, "Clusters that are observed at once, in this process")
	c.bindConnect(f)
	c.bindDial(f)
	c.bindSources(f)
	c.bindBuilds(f)
	f.IntVar(&c.Builds.AtOnce, "kustomize-concurrency", render.DefaultBuildLimits().AtOnce, "kustomize builds at once, in this process; each may take as much memory as --kustomize-memory says")
	f.Var(&c.Hooks, "allow-hook-workflow", "a Temporal workflow that hooks of a namespace of the hub, or with * of any, may run, as namespace/type@taskQueue; may be given again")
	c.Temporal.bind(f)
}

// bindAccounts binds what Releases act as on their targets.
func (c *config) bindAccounts(f *pflag.FlagSet) {
	f.StringVar(&c.ServiceAccounts.Default, "default-service-account", "", "service account that Releases without spec.serviceAccountName act as on their targets")
	f.BoolVar(&c.ServiceAccounts.Required, "require-service-account", false, "refuse Releases that act as no service account on their targets")
}

// bindConnect binds what a connection to a target may leave out of account.
func (c *config) bindConnect(f *pflag.FlagSet) {
	f.BoolVar(&c.Connect.AllowInsecureSkipTLSVerify, "allow-insecure-skip-tls-verify", false, "honour insecure-skip-tls-verify in kubeconfigs instead of refusing it")
	f.BoolVar(&c.Connect.AllowProxyURL, "allow-proxy-url", false, "honour proxy-url in kubeconfigs instead of refusing it")
}

// bindDial binds what says to which addresses convoy connects.
func (c *config) bindDial(f *pflag.FlagSet) {
	f.BoolVar(&c.Dial.AllowLoopback, "allow-loopback", false, "connect to loopback addresses when a kubeconfig or source names one; for targets and servers of sources on this machine")
	f.Var((*prefixes)(&c.Dial.Deny), "deny-addresses", "address ranges that no kubeconfig or source leads to, comma-separated as in 10.0.0.0/8,2001:db8::/32, besides those that are always refused")
}

// prefixes is the value of a flag that lists address ranges; a flag that is given again adds to it.
type prefixes []netip.Prefix

// Set adds the ranges of a comma-separated list.
func (p *prefixes) Set(list string) error {
	for text := range strings.SplitSeq(list, ",") {
		prefix, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil || prefix.Addr().Is4In6() && prefix.Bits() < 96 { // the latter would hold no IPv4 address
			return fmt.Errorf("%q is no address range such as 10.0.0.0/8", text)
		}
		*p = append(*p, prefix)
	}
	return nil
}

// String is the list that Set would read.
func (p *prefixes) String() string {
	texts := make([]string, len(*p))
	for i, prefix := range *p {
		texts[i] = prefix.String()
	}
	return strings.Join(texts, ",")
}

// Type names the value in the help.
func (p *prefixes) Type() string { return "ranges" }

// bindSources binds the limits and permissions that messages about sources name.
func (c *config) bindSources(f *pflag.FlagSet) {
	def := source.DefaultLimits()
	f.Int64Var(&c.Sources.MaxBytes, "source-max-bytes", def.MaxBytes, "bytes of a source below its path")
	f.IntVar(&c.Sources.MaxFiles, "source-max-files", def.MaxFiles, "files and folders of a source below its path")
	f.IntVar(&c.Sources.MaxDepth, "source-max-depth", def.MaxDepth, "depth of folders of a source below its path")
	f.Int64Var(&c.Sources.MaxRepositoryBytes, "source-max-repository-bytes", def.MaxRepositoryBytes, "bytes of everything in one commit of a repository, artifact of a registry, or chart")
	f.Int64Var(&c.Sources.CacheBytes, "source-cache-bytes", def.CacheBytes, "bytes of fetched sources that are kept in memory")
	f.DurationVar(&c.Sources.FetchTimeout, "source-fetch-timeout", def.FetchTimeout, "total time of one fetch of a source")
	f.BoolVar(&c.Sources.AllowFile, "allow-file-sources", false, "read git repositories that a source names with a file:// URL from convoy's own disk instead of refusing them")
	f.StringSliceVar(&c.Sources.PlainHTTPRegistries, "plain-http-registries", nil, "registries of oci sources that are spoken to over plain http, as host or host:port, comma-separated")
	f.BoolVar(&c.Sources.AllowPlainHTTPCredentials, "allow-plain-http-credentials", false, "send credentials of a source over plain http, where others can read them, instead of refusing it")
}

// bindBuilds binds the limits that messages about kustomize builds name.
func (c *config) bindBuilds(f *pflag.FlagSet) {
	c.Builds = render.DefaultBuildLimits()
	f.Int64Var(&c.Builds.Memory, "kustomize-memory", c.Builds.Memory, "bytes of memory of one kustomize build, which runs in a process of its own")
	f.DurationVar(&c.Builds.CPU, "kustomize-cpu-time", c.Builds.CPU, "CPU time of one kustomize build")
}

func (c *config) validate() error {
	if len(c.Roles) == 0 {
		return errors.New("--roles needs at least one of watcher, worker, observer")
	}
	for _, r := range c.Roles {
		if !slices.Contains(roles, r) {
			return fmt.Errorf("--roles: %q is not a role; use watcher, worker and observer, comma-separated", r)
		}
	}
	if c.WebhookAddress != "" && !c.has(roleWatcher) {
		return errors.New("--webhook-address needs the role watcher, which listens there")
	}
	if c.LeaderElect && !c.has(roleWatcher) {
		return errors.New("--leader-elect needs the role watcher: workers and observers share their work out by Temporal")
	}
	if c.LeaderElectNamespace != "" && !c.LeaderElect {
		return errors.New("--leader-elect-namespace needs --leader-elect")
	}
	if c.ResyncPeriod < 10*time.Second {
		return errors.New("--resync-period must be at least 10s")
	}
	if c.ObserverTenure < time.Second || c.ObserverAudit < time.Second || c.ObserverClusters <= 0 {
		return errors.New("--observer-tenure and --observer-audit must be at least 1s, --observer-clusters above 0")
	}
	if c.ProbesPerSecond <= 0 {
		return errors.New("--probes-per-second must be above 0")
	}
	if err := c.validateAccounts(); err != nil {
		return err
	}
	if c.Connect.Concurrency <= 0 {
		return errors.New("--cluster-concurrency must be above 0")
	}
	if err := c.Builds.Validate(); err != nil {
		return err
	}
	for _, limit := range []struct {
		flag      string
		is, below time.Duration
	}{ // a step that is cut off from outside writes no verdict
		{"--probe-timeout", c.Connect.ProbeTimeout, workflows.ProbeLimit},
		{"--source-fetch-timeout", c.Sources.FetchTimeout, workflows.FetchLimit},
		{"--stop-timeout", c.StopTimeout, 10 * time.Minute},
	} {
		if limit.is <= 0 || limit.is >= limit.below {
			return fmt.Errorf("%s must be above 0 and below %s", limit.flag, limit.below)
		}
	}
	if !slices.Contains([]string{"json", "text"}, c.LogFormat) {
		return fmt.Errorf("--log-format: %q is neither json nor text", c.LogFormat)
	}
	return nil
}

func (c *config) validateAccounts() error {
	if name := c.ServiceAccounts.Default; name != "" && len(validation.IsDNS1123Subdomain(name)) > 0 {
		return fmt.Errorf("--default-service-account: %q is no name of a service account", name)
	}
	return nil
}

func (c *config) has(role string) bool { return slices.Contains(c.Roles, role) }

// hub is how to reach the hub. The hub's own flow control is trusted, so there is no client-side limit.
func (c *config) hub() (*rest.Config, error) {
	var (
		cfg *rest.Config
		err error
	)
	if c.Kubeconfig != "" {
		cfg, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	} else {
		cfg, err = rest.InClusterConfig()
	}
	if errors.Is(err, rest.ErrNotInCluster) {
		return nil, errors.New("no hub: give --kubeconfig, or run in a pod with a service account")
	}
	if err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	cfg.QPS = -1
	cfg.UserAgent = "convoy/" + version
	return cfg, nil
}

// options say how to reach Temporal: flags, then the environment, then its configuration file.
func (t *temporalFlags) options() (client.Options, error) {
	o, err := envconfig.LoadClientOptions(envconfig.LoadClientOptionsRequest{
		ConfigFileProfile: t.Profile, ConfigFilePath: t.File,
	})
	if err != nil {
		return client.Options{}, fmt.Errorf("settings of Temporal: %w", err)
	}
	if t.Address != "" {
		o.HostPort = t.Address
	}
	if t.Namespace != "" {
		o.Namespace = t.Namespace
	}
	if o.HostPort == "" {
		o.HostPort = client.DefaultHostPort
	}
	if o.Namespace == "" {
		o.Namespace = client.DefaultNamespace
	}
	return o, nil
}

func runCommand() *cobra.Command {
	var c config
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the controller: the watcher of the hub, the worker of Temporal, the observer of targets, or several of them",
		Long: strings.TrimSpace(`
Run the controller until it gets SIGINT or SIGTERM.

The settings of Temporal are read as the temporal command reads them: TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE,
TEMPORAL_API_KEY, TEMPORAL_TLS_*, TEMPORAL_CONFIG_FILE and TEMPORAL_PROFILE.`),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.validate(); err != nil {
				return err
			}
			return run(cmd.Context(), &c)
		},
	}
	c.bind(cmd.Flags())
	return cmd
}
