package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	temporalclient "go.temporal.io/sdk/client"
	temporallog "go.temporal.io/sdk/log"
	"go.uber.org/dig"
	"go.uber.org/fx"
	"go.uber.org/fx/fxevent"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/metrics"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"kumodo.io/convoy/activities"
	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/apply"
	"kumodo.io/convoy/internal/connect"
	"kumodo.io/convoy/internal/dial"
	"kumodo.io/convoy/internal/hook"
	"kumodo.io/convoy/internal/render"
	"kumodo.io/convoy/internal/source"
	"kumodo.io/convoy/internal/status"
	"kumodo.io/convoy/internal/telemetry"
	"kumodo.io/convoy/watcher"
	"kumodo.io/convoy/worker"
)

// run builds the process and runs it until a signal or a fatal error.
func run(ctx context.Context, c *config) error {
	app := fx.New(options(c))
	if err := app.Err(); err != nil {
		return dig.RootCause(err) // not the way through the graph
	}
	start, cancel := context.WithTimeout(ctx, app.StartTimeout())
	defer cancel()
	if err := app.Start(start); err != nil {
		return err
	}
	end := <-app.Wait()
	stop, cancel := context.WithTimeout(ctx, app.StopTimeout())
	defer cancel()
	if err := app.Stop(stop); err != nil {
		return err
	}
	if end.ExitCode != 0 {
		return errors.New("ended after a fatal error; see the log")
	}
	return nil
}

// options is the graph of the process.
func options(c *config) fx.Option {
	return fx.Options(
		fx.Supply(c, c.Dial, c.Connect, c.Sources, c.Builds),
		fx.Provide(newLogger, newScheme, (*config).hub, newTraces, newTemporal, newManager, newHubClient, newRecorder, newKinds, dial.New, newDeps, newClaim),
		activities.Module, worker.Module,
		fx.Invoke(guardMetrics, registerMetrics, addRoles, runManager),
		fx.WithLogger(func(l *slog.Logger) fxevent.Logger {
			quiet := &fxevent.SlogLogger{Logger: l}
			quiet.UseLogLevel(slog.LevelDebug)
			quiet.UseErrorLevel(slog.LevelDebug) // run returns what ends the process, and it is said once
			return quiet
		}),
		fx.StopTimeout(c.StopTimeout+20*time.Second),
	)
}

func newLogger(c *config) *slog.Logger {
	o := &slog.HandlerOptions{Level: slog.LevelInfo}
	if c.Verbose {
		o.Level = slog.LevelDebug
	}
	var h slog.Handler = slog.NewJSONHandler(os.Stderr, o)
	if c.LogFormat == "text" {
		h = slog.NewTextHandler(os.Stderr, o)
	}
	ctrl.SetLogger(logr.FromSlogHandler(h))
	klog.SetLogger(logr.FromSlogHandler(h))
	return slog.New(h)
}

func newScheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(s); err != nil {
		return nil, err
	}
	return s, v1alpha1.AddToScheme(s)
}

// hubMetrics keeps what a kubeconfig names as its server out of the labels of the client's metrics.
type hubMetrics struct {
	next metrics.ResultMetric
	hub  string
}

// Increment counts a request to the hub or to a target.
func (m *hubMetrics) Increment(ctx context.Context, code, method, host string) {
	if host != m.hub {
		host = "target"
	}
	m.next.Increment(ctx, code, method, host)
}

func guardMetrics(cfg *rest.Config) error {
	hub, err := url.Parse(cfg.Host)
	if err != nil {
		return fmt.Errorf("address of the hub: %w", err)
	}
	metrics.RequestResult = &hubMetrics{next: metrics.RequestResult, hub: hub.Host}
	return nil
}

// newTemporal returns a client that connects when it is first used, so that the process can start before Temporal.
func newTemporal(lc fx.Lifecycle, c *config, traces telemetry.Traces, l *slog.Logger) (temporalclient.Client, worker.Options, error) {
	o, err := c.Temporal.options()
	if err != nil {
		return nil, worker.Options{}, err
	}
	version, err := workerVersion(os.Getenv)
	if err != nil {
		return nil, worker.Options{}, err
	}
	o.Logger = steps{temporallog.NewStructuredLogger(l)}
	if o.MetricsHandler, err = telemetry.Metrics(ctrlmetrics.Registry); err != nil {
		return nil, worker.Options{}, err
	}
	o.Interceptors = traces.Interceptors
	t, err := temporalclient.NewLazyClient(o)
	if err != nil {
		return nil, worker.Options{}, fmt.Errorf("client of Temporal: %w", err)
	}
	lc.Append(fx.StopHook(t.Close))
	return t, worker.Options{
		Namespace: o.Namespace, ProbesPerSecond: c.ProbesPerSecond, StopTimeout: c.StopTimeout,
		Steps: c.has(roleWorker), Observes: c.has(roleObserver), ObserverClusters: c.ObserverClusters,
		Version: version, RoutingPeriod: 5 * time.Second, Logger: o.Logger,
	}, nil
}

// newTraces traces when the environment says where to.
func newTraces(lc fx.Lifecycle, l *slog.Logger) (telemetry.Traces, error) {
	ctx := context.Background() //nolint:forbidigo // exporters connect when there is something to send
	t, err := telemetry.NewTraces(ctx, version, temporallog.NewStructuredLogger(l))
	lc.Append(fx.StopHook(t.Stop))
	return t, err
}

func newManager(c *config, cfg *rest.Config, s *runtime.Scheme) (ctrl.Manager, error) {
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: s, HealthProbeBindAddress: c.HealthAddress, Metrics: server.Options{BindAddress: c.MetricsAddress}, PprofBindAddress: c.PprofAddress,
		Cache: cache.Options{SyncPeriod: &c.ResyncPeriod}, GracefulShutdownTimeout: new(c.StopTimeout + 10*time.Second),
		LeaderElection: c.LeaderElect, LeaderElectionID: leaseName, LeaderElectionNamespace: c.LeaderElectNamespace,
		LeaderElectionReleaseOnCancel: true, // the process ends with the manager
	})
	if err != nil {
		return nil, fmt.Errorf("manager: %w", err)
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("health check: %w", err)
	}
	return mgr, nil
}

// newHubClient reads without a cache: activities act on what is there now.
func newHubClient(mgr ctrl.Manager) (client.WithWatch, client.Client, client.Reader, error) {
	hub, err := client.NewWithWatch(mgr.GetConfig(), client.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
	})
	return hub, hub, hub, err
}

func newRecorder(mgr ctrl.Manager) events.EventRecorder { return mgr.GetEventRecorder("convoy") }

func newDeps(
	c *config, hub client.WithWatch, t temporalclient.Client, m *activities.Metrics,
	p *connect.Pool, s *source.Sources, h *hook.Sender, b *render.Builds, r *render.Store, l *apply.Ledger, w *status.Writer,
) activities.Deps {
	return activities.Deps{
		Hub: hub, Clusters: p, Sources: s, Builds: b, Renders: r, Ledger: l, Status: w,
		Kicks: t, Workflows: t, Permits: &c.Hooks, Sender: h, Metrics: m, ResyncPeriod: c.ResyncPeriod, ServiceAccounts: c.ServiceAccounts,
		Tenure: c.ObserverTenure, Audit: c.ObserverAudit,
	}
}

// newClaim claims the namespace of Temporal for the hub.
func newClaim(t temporalclient.Client, o worker.Options, hub client.Reader) *worker.Claim {
	return worker.NewClaim(t, o.Namespace, o.Logger, func(ctx context.Context) (string, error) { return activities.HubID(ctx, hub) })
}

// registerMetrics adds convoy's own metrics to those of the manager.
func registerMetrics(m *activities.Metrics, p *connect.Pool) error {
	for _, c := range []prometheus.Collector{m, p} {
		if err := ctrlmetrics.Registry.Register(c); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
	}
	return nil
}

// addRoles adds to the manager what this process does.
func addRoles(
	c *config, mgr ctrl.Manager, t temporalclient.Client, traces telemetry.Traces, claim *worker.Claim, w *worker.Worker, k *kinds, recorder events.EventRecorder,
) error {
	ready := func(r *http.Request) error {
		if err := claim.Made(); err != nil {
			return err
		}
		_, err := t.CheckHealth(r.Context(), &temporalclient.CheckHealthRequest{})
		return err
	}
	if err := mgr.AddReadyzCheck("temporal", ready); err != nil {
		return fmt.Errorf("readiness check: %w", err)
	}
	if err := mgr.Add(claim); err != nil {
		return fmt.Errorf("claim: %w", err)
	}
	if c.has(roleWorker) || c.has(roleObserver) {
		if err := addWorker(mgr, w, k); err != nil {
			return err
		}
	}
	if c.has(roleWatcher) {
		return watcher.Setup(mgr, t, watcher.Options{
			ResyncPeriod: c.ResyncPeriod, WebhookAddress: c.WebhookAddress, Claimed: claim.Made, Tracer: traces.Tracer,
			// What it writes is no verdict, so the cache will do: a write upon an old state is refused, and tried again.
			Notices: status.NewWriter(mgr.GetClient(), recorder),
		})
	}
	return nil
}

// addWorker adds the worker, with what has to be before it does anything that the process before it could be ended for.
func addWorker(mgr ctrl.Manager, w *worker.Worker, k *kinds) error {
	if err := mgr.Add(&after{w, k}); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	for name, check := range map[string]func() error{"version": w.CheckVersion, "crds": k.ready} {
		if err := mgr.AddReadyzCheck(name, func(*http.Request) error { return check() }); err != nil {
			return fmt.Errorf("readiness check: %w", err)
		}
	}
	return nil
}

// runManager runs the manager from the start of the process to its end.
func runManager(lc fx.Lifecycle, end fx.Shutdowner, mgr ctrl.Manager, l *slog.Logger) {
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // the lifetime of the process
	var done sync.WaitGroup
	lc.Append(fx.StartStopHook(
		func() {
			done.Go(func() {
				if err := mgr.Start(ctx); err != nil {
					l.Error("stopping", "error", err)
					_ = end.Shutdown(fx.ExitCode(1)) // it only fails when the process is ending already
				}
			})
		},
		func() {
			cancel()
			done.Wait()
		},
	))
}
