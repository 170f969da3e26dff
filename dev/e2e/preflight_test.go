package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	temporalclient "go.temporal.io/sdk/client"
	temporallog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"kumodo.io/convoy/internal/delivery"
)

func (s *scene) preflight(flags ...string) (string, error) {
	s.Helper()
	return s.command("convoy-race", append([]string{"preflight", "--temporal-address=" + s.local.Temporal.Address}, flags...)...)
}

func TestAPreflightFindsNothingAgainstTheBuildThatRuns(t *testing.T) {
	s := newCalmScene(t)
	s.readyCluster("prod", alpha)
	s.greeting("greeting", "hello")
	s.release("app", "prod", "greeting")
	s.awaitDelivered("app")
	s.awaitObserver("prod")
	out, err := s.preflight("--kubeconfig="+s.hubFile, "-o=json")
	s.must(err)
	var says struct {
		OK    bool
		Types []struct {
			Type             string
			Replayed, Failed int
		}
		Hub struct {
			Checked        int
			Older, Objects []any
		}
	}
	s.must(json.Unmarshal([]byte(out), &says))
	replayed := map[string]int{}
	for _, k := range says.Types {
		replayed[k.Type] = k.Replayed
	}
	if !says.OK || replayed["Cluster"] == 0 || replayed["Release"] == 0 || replayed["Observer"] == 0 || says.Hub.Checked < 2 || len(says.Hub.Older)+len(says.Hub.Objects) > 0 {
		t.Errorf("it says %s", out)
	}
}

// otherCluster is the workflow of a Cluster as another build may have it.
func otherCluster(ctx workflow.Context, _ delivery.ClusterInput) error {
	if err := workflow.Sleep(ctx, time.Millisecond); err != nil {
		return err
	}
	return workflow.Sleep(ctx, time.Hour)
}

func TestAPreflightNamesWorkflowsThatTheBuildCannotGoOnWith(t *testing.T) {
	s := newScene(t)
	if out, err := s.temporalCommand("operator", "namespace", "create", s.ns); err != nil {
		t.Fatal(err, out)
	}
	c, err := temporalclient.NewClientFromExisting(s.temporal, temporalclient.Options{Namespace: s.ns, Logger: temporallog.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	s.must(err)
	t.Cleanup(c.Close)
	other := worker.New(c, delivery.QueueMain, worker.Options{DisableRegistrationAliasing: true})
	other.RegisterWorkflowWithOptions(otherCluster, workflow.RegisterOptions{Name: delivery.WorkflowCluster})
	s.eventually("the new namespace takes workers", func(context.Context) error { return other.Start() })
	defer other.Stop()
	const id, secret = "cluster/web/east", "S3NT1NEL-of-an-input"
	s.eventually("a workflow of another build has gone on", func(ctx context.Context) error {
		run, err := c.ExecuteWorkflow(ctx, temporalclient.StartWorkflowOptions{ID: id, TaskQueue: delivery.QueueMain}, delivery.WorkflowCluster, delivery.ClusterInput{Key: delivery.Key{Namespace: "web", Name: secret}})
		if err != nil {
			return err
		}
		d, err := c.DescribeWorkflow(ctx, run.GetID(), "")
		if err == nil && d.RawResponse.GetWorkflowExecutionInfo().GetHistoryLength() < 9 {
			err = errors.New("it has not")
		}
		return err
	})
	s.eventually("the preflight names it", func(context.Context) error {
		out, err := s.preflight("--temporal-namespace=" + s.ns)
		if err == nil {
			return errors.New("it takes everything: " + out) // what is listed lags behind
		}
		text := err.Error()
		for _, words := range []string{"exit status 1", id + ", run ", "the history goes on with Timer", "this build cannot take over"} {
			if !strings.Contains(text, words) {
				t.Errorf("it does not say %q: %s", words, text)
			}
		}
		if strings.Contains(text, secret) {
			t.Errorf("it shows an input: %s", text)
		}
		return nil
	})
}
