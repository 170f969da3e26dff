package e2e

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"kumodo.io/convoy/dev/env"
)

// calm is a site whose convoy probes by itself every ten minutes only, and makes one such probe a second at the most. The
// first test that needs it starts it. Its targets are the shared ones. Unlike the shared one, it sends traces, and logs more.
var calm struct {
	once   sync.Once
	site   site
	traces *traces // what its convoy sends
	err    error
}

// newCalmScene makes a namespace on the hub of the calm site, for a test that runs beside others.
func newCalmScene(t *testing.T) *scene {
	t.Helper()
	t.Parallel()
	calm.once.Do(func() { calm.err = startCalm() })
	if calm.err != nil {
		t.Fatal(calm.err)
	}
	return newSceneAt(t, calm.site)
}

func startCalm() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	e, err := env.Start(ctx, env.Options{Bin: os.Getenv("KUBEBUILDER_ASSETS"), Temporal: temporalOptions(), Hub: env.ControlPlaneOptions{Name: "calm-hub"}})
	if err != nil {
		return err
	}
	calm.site.local = e // so that it is stopped whatever happens next
	at, err := siteOf(e)
	if err != nil {
		return err
	}
	calm.site = at
	calm.site.convoy, err = newConvoy("calm", "--kubeconfig="+at.hubFile, "--temporal-address="+e.Temporal.Address,
		"--resync-period=10m", "--probes-per-second=1", "--verbose")
	if err != nil {
		return err
	}
	if calm.traces, err = receiveTraces(); err != nil {
		return err
	}
	calm.site.convoy.env = calm.traces.settings()
	return calm.site.convoy.start(ctx)
}

// sites are all sites that were started.
func sites() []site {
	all := []site{sharedSite()}
	if calm.site.convoy != nil {
		all = append(all, calm.site)
	}
	return all
}

// stopCalm ends the environment of the calm site, if there is one.
func stopCalm() error {
	if calm.site.local == nil {
		return nil
	}
	if calm.site.temporal != nil {
		calm.site.temporal.Close()
	}
	if calm.traces != nil {
		if err := calm.traces.stop(); err != nil {
			return err
		}
	}
	return calm.site.local.Stop()
}

// endConvoys stops every convoy, keeps its log and looks for what no log may hold.
func endConvoys() error {
	var errs []error
	for _, at := range sites() {
		for _, end := range []func() error{at.convoy.stop, at.convoy.keep, at.convoy.check} {
			errs = append(errs, end())
		}
	}
	return errors.Join(errs...)
}
