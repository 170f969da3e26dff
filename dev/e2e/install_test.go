package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
)

// Why a right is given that the story below does not need.
const (
	again    = "the same Event again"
	fallback = "an informer lists where the API server does not stream"
	conflict = "after a conflict of two writes of a status"
	engine   = "while Temporal does not answer, which another test is about"
)

// seldom are the rights that the story below does not need.
var seldom = map[string]map[right]string{
	"convoy-watcher": {
		"patch events":                                again,
		"list clusters.core.convoy.kumodo.io":         fallback,
		"list releases.core.convoy.kumodo.io":         fallback,
		"list approvals.core.convoy.kumodo.io":        fallback,
		"list secrets":                                fallback,
		"list configmaps":                             fallback,
		"patch clusters.core.convoy.kumodo.io/status": engine,
		"patch releases.core.convoy.kumodo.io/status": engine,
	},
	"convoy-worker": {"patch events.events.k8s.io": again},
	"convoy-observer": {
		"patch events.events.k8s.io":          again,
		"list clusters.core.convoy.kumodo.io": fallback,
		"list releases.core.convoy.kumodo.io": fallback,
		"get releases.core.convoy.kumodo.io":  conflict,
	},
}

func TestEachRoleNeedsTheRightsThatTheBaseGivesItAndNoMore(t *testing.T) {
	t.Parallel()
	at := newHub(t, "install-hub")
	kubectlAt(t, at, "", "apply", "--server-side", "-k", folder(t, "deploy", "base"))
	convoys := newInstalled(t, at)
	s := newSceneAt(t, convoys.at)
	s.deliverUnderRBAC(convoys)
	s.leaveBehind()
	s.removeAll()
	for _, role := range []string{"watcher", "worker", "observer"} {
		account := "convoy-" + role
		rights, forbidden := used(s, account)
		if len(forbidden) > 0 {
			t.Errorf("the role %s may not do what it does:\n%s", role, strings.Join(forbidden, "\n"))
		}
		for _, given := range rightsOf(s, account) {
			if _, excused := seldom[account][given]; !rights[given] && !excused {
				t.Errorf("the role %s is given a right that it does not use: %s", role, given)
			}
		}
	}
}

// deliverUnderRBAC creates, approves, corrects, changes and hands over to the other watcher.
func (s *scene) deliverUnderRBAC(convoys *installed) {
	s.Helper()
	on, repository := s.on(alpha), s.repository()
	ca, err := alpha.CA()
	s.must(err)
	s.configMap("authority", map[string]string{"ca.crt": string(ca)})
	token := s.secret("prod-token", map[string]string{"token": s.accountToken("first-" + s.ns)})
	cluster := s.withToken("prod", &v1alpha1.CAPublicCertRef{Kind: "ConfigMap", Name: "authority", Key: "ca.crt"})
	cluster.Spec.DeletionPolicy.PruneReleases = true
	s.create(cluster)
	s.awaitCluster("prod", metav1.ConditionTrue, v1alpha1.ReasonReachable)

	s.greeting("greeting", "one")
	s.release("app", "prod", "greeting", drifts(v1alpha1.DriftCorrect), func(r *v1alpha1.Release) { r.Spec.SyncPolicy.Mode = v1alpha1.SyncManual })
	approved := s.approve("app", s.awaitPending("app", v1alpha1.ReasonAwaitingApproval))
	s.awaitDelivered("app")
	s.awaitApproval(approved, v1alpha1.ApprovalUsed)

	s.commit(repository, chart(map[string]string{"chart/templates/hooks.yaml": chartJob("migrate", "pre-install,pre-upgrade", "", "backoffLimit: 0", "")}))
	s.release("charted", "prod", "", ofChart(repository, nil), func(r *v1alpha1.Release) { r.Spec.Source.PollInterval.Duration = time.Hour })
	s.awaitDelivered("charted")
	if ran := s.ranHooks("charted"); ran != "pre-install.Job.migrate=Succeeded" {
		s.Errorf("hooks of the chart: %s", ran)
	}
	s.awaitObserver("prod")
	s.tamper(on, &corev1.ConfigMap{ObjectMeta: s.meta("greeting")}, `{"data":{"text":"of somebody else"}}`)
	s.awaitText(patience, on, "greeting", "one")
	s.awaitEvent("app", v1alpha1.ReasonDriftCorrected)

	uid := s.getCluster("prod").UID
	kept := s.awaitKeptCredentials(uid)
	second := s.accountToken("second-" + s.ns)
	change(s, token, func(o *corev1.Secret) { o.Data["token"] = []byte(second) })
	s.eventually("the new credentials are kept", func(ctx context.Context) error {
		var now corev1.SecretList
		err := s.hub.List(ctx, &now, client.InNamespace(s.ns), client.MatchingLabels{v1alpha1.LabelClusterUID: string(uid)})
		if err == nil && (len(now.Items) != 1 || now.Items[0].ResourceVersion == kept.ResourceVersion) {
			err = fmt.Errorf("those of before are, or none")
		}
		return err
	})

	const key = secretSentinel + "-webhook"
	s.secret("convoy-webhook", map[string]string{"key": key})
	s.commit(repository, chart(map[string]string{"chart/values.yaml": "text: another\nregion: r\npassword: p\n"}))
	if status := s.push(repository, key); status != http.StatusAccepted { // the watcher that stands by is told
		s.Errorf("a push: %d", status)
	}
	s.awaitRollout("charted", 2)

	convoys.handOver()
	s.edit("greeting", "two")
	s.approve("app", s.awaitPending("app", v1alpha1.ReasonAwaitingApproval))
	s.awaitText(patience, on, "greeting", "two")
	s.awaitRollout("app", 2)
}

// leaveBehind gives up a deletion whose target does not answer.
func (s *scene) leaveBehind() {
	s.Helper()
	path := newLink(s.T, alpha)
	s.cluster("lost", path.kubeconfig(s.T, "lost-"+s.ns))
	s.greeting("other", "hello")
	release := s.release("lost", "lost", "other", func(r *v1alpha1.Release) {
		r.Spec.DeletionPolicy.BlockOnClusterUnreachable = new(bool)
		r.Spec.DeletionPolicy.Timeout.Duration = time.Second
	})
	s.awaitDelivered("lost")
	path.cut()
	s.remove(release)
	s.awaitGone(s.hub, release)
	s.leftBehind(release.UID)
}

// removeAll deletes the Clusters, which delete their Releases.
func (s *scene) removeAll() {
	s.Helper()
	for _, name := range []string{"lost", "prod"} {
		c := s.getCluster(name)
		s.remove(c)
		s.awaitGone(s.hub, c)
	}
	var left v1alpha1.ReleaseList
	s.must(s.hub.List(s.ctx, &left, client.InNamespace(s.ns)))
	if len(left.Items) > 0 {
		s.Errorf("%d Releases are left", len(left.Items))
	}
	if s.says(s.on(alpha), "greeting") != "" {
		s.Error("what was delivered is still on the target")
	}
}
