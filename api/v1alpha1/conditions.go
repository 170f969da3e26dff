package v1alpha1

// Condition types. Ready, Reconciling and Stalled follow kstatus: the last two are present only when true.
const (
	// ConditionReady is True when the object is as wished, as far as convoy can see.
	ConditionReady = "Ready"
	// ConditionReconciling is True while convoy works on the object.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is True when convoy cannot go on without a change by somebody.
	ConditionStalled = "Stalled"
	// ConditionSourceReady is True when the last look at the source succeeded.
	ConditionSourceReady = "SourceReady"
	// ConditionRendered is True when the source could be rendered.
	ConditionRendered = "Rendered"
	// ConditionApplied is True when the render is on the target.
	ConditionApplied = "Applied"
	// ConditionHealthy is True when the objects on the target are healthy.
	ConditionHealthy = "Healthy"
	// ConditionDrifted is True when objects on the target are no longer as they were applied; absent with drift: Ignore.
	ConditionDrifted = "Drifted"
	// ConditionDeleting is True while an object is being deleted; its message says what is awaited.
	ConditionDeleting = "Deleting"
	// ConditionLeftovers is True while a Release that has moved still has objects on a former Cluster; it is present only
	// then. Ready does not follow it: it is about the Cluster that the Release references.
	ConditionLeftovers = "Leftovers"
	// ConditionEngineUnavailable is True while a change of the object cannot be handed over to Temporal; it is present only
	// then. The other conditions are about what convoy knew before.
	ConditionEngineUnavailable = "EngineUnavailable"
)

// Reasons of the condition EngineUnavailable, of both kinds.
const (
	// ReasonEngineUnavailable: Temporal has not answered for 30 seconds or longer.
	ReasonEngineUnavailable = "EngineUnavailable"
)

// Reasons of a Cluster's Ready condition.
const (
	// ReasonReachable: the last probe succeeded.
	ReasonReachable = "Reachable"
	// ReasonProbeFailed: the last probe failed; convoy retries with a growing delay.
	ReasonProbeFailed = "ProbeFailed"
	// ReasonUnsupported: spec or kubeconfig asks for something that convoy does not do; not retried until a change.
	ReasonUnsupported = "Unsupported"
	// ReasonClusterIdentityChanged: another cluster answers than before; held until the annotation
	// convoy.kumodo.io/accept-cluster-id names it, or the former one answers again.
	ReasonClusterIdentityChanged = "ClusterIdentityChanged"
)

// Reasons of Deleting and Leftovers.
const (
	// ReasonWaitingForReleases: Releases are still being deleted from the Cluster, or have moved away and leave objects.
	ReasonWaitingForReleases = "WaitingForReleases"
	// ReasonPruning: the objects of a Release are being removed.
	ReasonPruning = "Pruning"
	// ReasonRunningHooks: hooks of the deletion are running.
	ReasonRunningHooks = "RunningHooks"
	// ReasonClusterUnreachable: the target cannot be worked with; convoy waits or gives up, as the deletion policy says.
	ReasonClusterUnreachable = "ClusterUnreachable"
)

// Reasons of a Release's conditions.
const (
	// ReasonFetched: the source was read.
	ReasonFetched = "Fetched"
	// ReasonSourceFailed: the source could not be read; retried.
	ReasonSourceFailed = "SourceFailed"
	// ReasonSourceNotFound: repository, branch, path or ConfigMap does not exist; retried, nothing is pruned.
	ReasonSourceNotFound = "SourceNotFound"
	// ReasonSourceInvalid: the source cannot be read as it is written; looked at again at the interval and at a change.
	ReasonSourceInvalid = "SourceInvalid"
	// ReasonClusterNotReady: the Cluster does not exist, is not reachable or not yet probed; retried.
	ReasonClusterNotReady = "ClusterNotReady"
	// ReasonRendered: the source was rendered.
	ReasonRendered = "Rendered"
	// ReasonRenderFailed: the source or a mutation is not valid; looked at again at the interval and at a change.
	ReasonRenderFailed = "RenderFailed"
	// ReasonRenderRetrying: what a chart asks of its Cluster cannot be read at the moment; retried.
	ReasonRenderRetrying = "RenderRetrying"
	// ReasonEmptyRender: the render holds no object where the one before did; refused unless syncPolicy.allowEmpty.
	ReasonEmptyRender = "EmptyRender"
	// ReasonSuspended: spec.suspend stops deliveries.
	ReasonSuspended = "Suspended"
	// ReasonAwaitingApproval: a new render waits for an Approval of its digest.
	ReasonAwaitingApproval = "AwaitingApproval"
	// ReasonOutsideWindow: a new render waits until a window of the sync policy opens.
	ReasonOutsideWindow = "OutsideWindow"
	// ReasonSyncPolicyInvalid: a window of the sync policy cannot be read; looked at again at a change.
	ReasonSyncPolicyInvalid = "SyncPolicyInvalid"
	// ReasonPinnedRenderMissing: spec.pinnedRender names a render that is not kept; looked at again at a change.
	ReasonPinnedRenderMissing = "PinnedRenderMissing"
	// ReasonProgressing: a rollout is under way.
	ReasonProgressing = "Progressing"
	// ReasonApplied: every object is on the target.
	ReasonApplied = "Applied"
	// ReasonApplyFailed: the target refused objects, named in the message; looked at again at the interval and at a change.
	ReasonApplyFailed = "ApplyFailed"
	// ReasonApplyRetrying: the target could not take all objects for now; retried.
	ReasonApplyRetrying = "ApplyRetrying"
	// ReasonConflict: an object belongs to another Release or another tool, or a field to another manager, named in the message.
	ReasonConflict = "Conflict"
	// ReasonServiceAccountRequired: spec.serviceAccountName is empty, and the operator requires one.
	ReasonServiceAccountRequired = "ServiceAccountRequired"
	// ReasonPruneFailed: objects that left the render could not be removed; retried.
	ReasonPruneFailed = "PruneFailed"
	// ReasonHealthy: every object is healthy.
	ReasonHealthy = "Healthy"
	// ReasonHealthTimeout: objects did not become healthy within syncPolicy.timeout.
	ReasonHealthTimeout = "HealthTimeout"
	// ReasonUnhealthy: objects failed in a way that waiting does not heal.
	ReasonUnhealthy = "Unhealthy"
	// ReasonDegraded: objects that were healthy when they were delivered are not any more, as the observer sees.
	ReasonDegraded = "Degraded"
	// ReasonNotObserved: the observer cannot see all objects at the moment; Ready does not depend on it.
	ReasonNotObserved = "NotObserved"
	// ReasonInSync: the objects are as they were applied.
	ReasonInSync = "InSync"
	// ReasonDrifted: objects are gone, or fields of them are not as they were applied, named in the message.
	ReasonDrifted = "Drifted"
	// ReasonDriftCorrected is the reason of the Event that tells of objects that were applied again.
	ReasonDriftCorrected = "DriftCorrected"
	// ReasonHookFailed: a hook failed, and the rollout or the deletion does not go on without it.
	ReasonHookFailed = "HookFailed"
	// ReasonDelivered: source, render, target and health are as wished.
	ReasonDelivered = "Delivered"
	// ReasonDeleting: the object is being deleted.
	ReasonDeleting = "Deleting"
)

// Annotations and labels that convoy reads or writes.
const (
	// AnnotationRequestedAt on a Release asks for a reconcile when its value changes.
	AnnotationRequestedAt = "convoy.kumodo.io/requestedAt"
	// AnnotationAcceptClusterID on a Cluster holds the ID of the cluster that may take the former one's place.
	AnnotationAcceptClusterID = "convoy.kumodo.io/accept-cluster-id"
	// AnnotationHubID on the namespace kube-system of the hub holds the ID of the hub whose place this one takes. It stands
	// for the UID of the namespace in the marks on objects of the targets, and in the claim on the namespace of Temporal.
	AnnotationHubID = "convoy.kumodo.io/hub-id"
	// AnnotationCluster on kept credentials names the Cluster.
	AnnotationCluster = "convoy.kumodo.io/cluster"
	// AnnotationNewLife is set by convoy together with the finalizer; its value is the UID of the Release.
	// It says that nothing was applied for this life before, and means nothing on a restored copy.
	AnnotationNewLife = "convoy.kumodo.io/new-life"
	// AnnotationRelease on an object of a target names its Release, as namespace/name.
	AnnotationRelease = "convoy.kumodo.io/release"
	// AnnotationPrune on an object of a target: the value disabled keeps convoy from deleting it.
	AnnotationPrune = "convoy.kumodo.io/prune"
	// AnnotationAdopt on an object of a source: the value true lets convoy take over an object that another tool owns.
	AnnotationAdopt = "convoy.kumodo.io/adopt"
	// AnnotationRecreate on an object of a source: true or false outweighs syncPolicy.recreate.
	AnnotationRecreate = "convoy.kumodo.io/recreate"
	// AnnotationSSA on an object of a source says how it is applied: Merge, IfNotPresent or Ignore.
	AnnotationSSA = "convoy.kumodo.io/ssa"
	// LabelOwner on an object of a target holds the key of the Release that owns it.
	LabelOwner = "convoy.kumodo.io/owner"
	// LabelHookOwner on an object that a hook made on a target holds the key of its Release.
	LabelHookOwner = "convoy.kumodo.io/hook-owner"
	// AnnotationHook on such an object names the run of the hook.
	AnnotationHook = "convoy.kumodo.io/hook"
	// LabelReleaseUID on convoy's own objects of the hub holds the UID of the Release.
	LabelReleaseUID = "convoy.kumodo.io/release-uid"
	// LabelClusterUID on an Inventory, and on kept credentials, holds the UID of the Cluster.
	LabelClusterUID = "convoy.kumodo.io/cluster-uid"
	// LabelDigest on a part of a kept render holds the beginning of its digest.
	LabelDigest = "convoy.kumodo.io/digest"
)
