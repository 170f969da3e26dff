package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
)

const (
	pollInterval = 100 * time.Millisecond
	// A wait says what it waits for when that changes, but not more often than sayAfter, and again after sayAgain.
	sayAfter, sayAgain = time.Second, 10 * time.Second
)

// await calls check until it returns nil, and says meanwhile what it answers. It gives up when the context or convoy
// ends; the error then holds the last answer.
func (d *demo) await(ctx context.Context, what string, check func(context.Context) error) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	last, said, saidAt := "", "", time.Now()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == "" { // the end of the context is no answer
			last = err.Error()
		}
		if quiet := time.Since(saidAt); last != said && quiet > sayAfter || quiet > sayAgain {
			d.out.detail("… waiting for %s: %s", what, last)
			said, saidAt = last, time.Now()
		}
		if d.convoy.ended() {
			return fmt.Errorf("waiting for %s: convoy has ended (%w)", what, d.convoy.err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %s", what, last)
		}
	}
}

// meanwhile says every now and then what is going on, until stop is called.
func (d *demo) meanwhile(what string) (stop func()) {
	done := make(chan struct{})
	ticker := time.NewTicker(sayAgain)
	go func() {
		for {
			select {
			case <-ticker.C:
				d.out.detail("… %s", what)
			case <-done:
				ticker.Stop()
				return
			}
		}
	}()
	return func() { close(done) }
}

// awaitCluster waits until the Ready condition of the Cluster is about its present generation and as wished.
func (d *demo) awaitCluster(ctx context.Context, status metav1.ConditionStatus, reason string) (*v1alpha1.Cluster, error) {
	c := &v1alpha1.Cluster{}
	err := d.await(ctx, fmt.Sprintf("Cluster %s to have Ready=%s", clusterName, status), func(ctx context.Context) error {
		c = &v1alpha1.Cluster{}
		if err := d.hub.Get(ctx, key(clusterName), c); err != nil {
			return err
		}
		return compare(c.Status.Conditions, v1alpha1.ConditionReady, status, reason, c.Generation)
	})
	return c, err
}

// awaitDelivered waits until the Release is Ready, about its present generation, and check has nothing to say against it.
// Source, RenderRef, Rollout and Inventory are in the status then.
func (d *demo) awaitDelivered(ctx context.Context, check func(*v1alpha1.Release) error) (*v1alpha1.Release, error) {
	r := &v1alpha1.Release{}
	err := d.await(ctx, fmt.Sprintf("Release %s to be delivered", releaseName), func(ctx context.Context) error {
		r = &v1alpha1.Release{}
		if err := d.hub.Get(ctx, key(releaseName), r); err != nil {
			return err
		}
		if err := compare(r.Status.Conditions, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonDelivered, r.Generation); err != nil {
			return err
		}
		if s := r.Status; s.Source == nil || s.RenderRef == nil || s.Rollout == nil || s.Inventory == nil {
			return errors.New("its status is not complete")
		}
		return check(r)
	})
	return r, err
}

// compare says how a condition differs from the wish.
func compare(all []metav1.Condition, kind string, status metav1.ConditionStatus, reason string, generation int64) error {
	is := meta.FindStatusCondition(all, kind)
	switch {
	case is == nil:
		return fmt.Errorf("it has no condition %s yet", kind)
	case is.Status != status || is.Reason != reason:
		return fmt.Errorf("%s=%s, %s: %s", kind, is.Status, is.Reason, is.Message)
	case is.ObservedGeneration != generation:
		return fmt.Errorf("%s is about generation %d, not %d", kind, is.ObservedGeneration, generation)
	}
	return nil
}

// state is what the hub's Clusters and Releases say.
func (d *demo) state(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var b strings.Builder
	write := func(kind string, o metav1.Object, conditions []metav1.Condition) {
		fmt.Fprintf(&b, "%s %s, generation %d", kind, o.GetName(), o.GetGeneration())
		if o.GetDeletionTimestamp() != nil {
			fmt.Fprintf(&b, ", being deleted, finalizers %v", o.GetFinalizers())
		}
		b.WriteString("\n")
		for _, c := range conditions {
			fmt.Fprintf(&b, "  %-11s  %-7s  %-16s  %s (generation %d)\n", c.Type, c.Status, c.Reason, c.Message, c.ObservedGeneration)
		}
	}
	var clusters v1alpha1.ClusterList
	if err := d.hub.List(ctx, &clusters, client.InNamespace(namespace)); err != nil {
		return fmt.Sprintf("cannot list the Clusters: %v", err)
	}
	for i := range clusters.Items {
		write("Cluster", &clusters.Items[i], clusters.Items[i].Status.Conditions)
	}
	var releases v1alpha1.ReleaseList
	if err := d.hub.List(ctx, &releases, client.InNamespace(namespace)); err != nil {
		return fmt.Sprintf("cannot list the Releases: %v", err)
	}
	for i := range releases.Items {
		write("Release", &releases.Items[i], releases.Items[i].Status.Conditions)
	}
	if b.Len() == 0 {
		return "no Cluster and no Release"
	}
	return b.String()
}
