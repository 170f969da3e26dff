package delivery

import (
	"strconv"
	"strings"
	"time"
)

// Key names one life of a Cluster or Release on the hub. With another UID it is another life.
type Key struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
}

// String is namespace/name.
func (k Key) String() string { return k.Namespace + "/" + k.Name }

// KickReason says why the watcher woke a workflow.
type KickReason string

// The reasons of a kick.
const (
	// KickChanged: the object itself was created or changed.
	KickChanged KickReason = "Changed"
	// KickListed: the watcher began, and found the object there. It may have changed meanwhile.
	KickListed KickReason = "Listed"
	// KickDependency: a Secret or ConfigMap that it reads changed.
	KickDependency KickReason = "Dependency"
	// KickResync: nothing changed; the periodic resync of the informer came round.
	KickResync KickReason = "Resync"
	// KickSuspected: the Cluster gave no answer to somebody who works on it.
	KickSuspected KickReason = "Suspected"
	// KickDeleting: the object is being deleted, or changed while it is.
	KickDeleting KickReason = "Deleting"
	// KickGone: the object does not exist any more. Such a kick has no UID.
	KickGone KickReason = "Gone"
)

// Kick is what the watcher signals: a hint to look, never what to do. Workflows drain all pending kicks and
// then act once.
type Kick struct {
	UID        string     `json:"uid"`
	Generation int64      `json:"generation"`
	Reason     KickReason `json:"reason"`
	// Created is when the object was created, in seconds: a late kick of an earlier life is told by it.
	Created int64 `json:"created,omitempty"`
}

// Names of signals, updates and queries of the workflows.
const (
	SignalKick      = "kick"
	SignalReprobe   = "reprobe"
	SignalReconcile = "reconcile"
	// SignalNews tells a Release what the workflow of its source found.
	SignalNews = "news"
	// SignalDrift tells a Release that what it has on its target is not as it was applied, and is to be corrected.
	SignalDrift = "drift"
	// SignalUsers tells the workflow of a source who uses it; SignalLook makes it look now.
	SignalUsers     = "users"
	SignalLook      = "look"
	UpdateReprobe   = "reprobe"
	UpdateReconcile = "reconcile"
)

// Drift is what an observer tells a Release.
type Drift struct {
	UID string `json:"uid"`
}

// Task queues, by what may fill them: a hanging source must not take the slots of an apply.
const (
	// QueueMain runs the workflows and short activities.
	QueueMain = "convoy"
	// QueueProbe runs the retrying probes; the server limits its rate.
	QueueProbe = "convoy-probe"
	// QueueSource runs fetch and render.
	QueueSource = "convoy-source"
	// QueueApply runs everything that changes a target.
	QueueApply = "convoy-apply"
	// QueueObserver runs the observers.
	QueueObserver = "convoy-observer"
	// QueueObserve runs what waits for a target for long and loads it little.
	QueueObserve = "convoy-observe"
)

// Names of the workflow types.
const (
	WorkflowCluster = "Cluster"
	WorkflowRelease = "Release"
	WorkflowRollout = "Rollout"
	WorkflowSource  = "Source"
	// WorkflowObserver keeps one activity running that watches a target.
	WorkflowObserver = "Observer"
	// WorkflowHub runs as long as a namespace of Temporal serves a hub, which its memo names.
	WorkflowHub = "Hub"
)

// HubWorkflowID is the ID of the workflow that says which hub a namespace of Temporal serves. There can be one only.
const HubWorkflowID = "hub"

// MemoHub is the entry of its memo with the ID of the hub.
const MemoHub = "HubID"

// ClusterWorkflowID is the ID of the workflow of a Cluster.
func ClusterWorkflowID(namespace, name string) string { return "cluster/" + namespace + "/" + name }

// ReleaseWorkflowID is the ID of the workflow of a Release.
func ReleaseWorkflowID(namespace, name string) string { return "release/" + namespace + "/" + name }

// RolloutWorkflowID is the ID of the workflow of one rollout.
func RolloutWorkflowID(namespace, name string, number int64) string {
	return "rollout/" + namespace + "/" + name + "/" + strconv.FormatInt(number, 10)
}

// ObserverWorkflowID is the ID of the workflow that keeps a Cluster observed.
func ObserverWorkflowID(namespace, name string) string { return "observer/" + namespace + "/" + name }

// SourceWorkflowID is the ID of the workflow that polls a source, by the ID of the poll.
func SourceWorkflowID(poll string) string { return "source/" + poll }

// ObjectOf is what kind of object on the hub a workflow is about, and which; no kind when it is about none.
func ObjectOf(workflowID string) (kind string, object Key) {
	parts := strings.Split(workflowID, "/")
	if len(parts) < 3 {
		return "", Key{}
	}
	kinds := map[string]string{"cluster": "Cluster", "observer": "Cluster", "release": "Release", "rollout": "Release"}
	return kinds[parts[0]], Key{Namespace: parts[1], Name: parts[2]}
}

// ClusterInput starts the workflow of a Cluster, or its next run.
type ClusterInput struct {
	Key Key `json:"key"`
	// Failures is how many probes in a row failed before this run.
	Failures int `json:"failures,omitempty"`
	// Probing: a probe was under way when the run before ended.
	Probing bool `json:"probing,omitempty"`
}

// ReleaseInput starts the workflow of a Release, or its next run.
type ReleaseInput struct {
	Key Key `json:"key"`
	// Interval, Next and Turn carry the next look at the source over to the next run; zero is a look at once.
	Interval time.Duration `json:"interval,omitempty"`
	Next     time.Time     `json:"next,omitzero"`
	Turn     int64         `json:"turn,omitempty"`
	// Word is what is known of the source.
	Word Word `json:"word,omitzero"`
}

// HubInput starts the workflow that says which hub a namespace of Temporal serves.
type HubInput struct {
	HubID string `json:"hubID"`
}

// ObserverInput starts the workflow that keeps a Cluster observed, or its next run.
type ObserverInput struct {
	Key Key `json:"key"`
	// Created is when the Cluster was created, in seconds, if that is known.
	Created int64 `json:"created,omitempty"`
}

// RolloutInput starts one rollout.
type RolloutInput struct {
	Key     Key    `json:"key"`
	Cluster string `json:"cluster"`
	Number  int64  `json:"number"`
	Digest  string `json:"digest"`
	// Hooks of the rollout, in the order of the spec.
	Hooks []HookRef `json:"hooks,omitempty"`
}

// Names of the search attributes of the workflows.
const (
	AttributeCluster   = "ConvoyCluster"
	AttributeRelease   = "ConvoyRelease"
	AttributeNamespace = "ConvoyNamespace"
	AttributePhase     = "ConvoyPhase"
	AttributeRevision  = "ConvoyRevision"
	// AttributeReady is the only one that is a Bool; the others are Keywords.
	AttributeReady = "ConvoyReady"
)
