package apply

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

const (
	allOfConfigMaps = `{apiGroups: [""], resources: [configmaps], verbs: ["*"]}`
	allOfBindings   = `{apiGroups: [rbac.authorization.k8s.io], resources: [rolebindings], verbs: ["*"]}`
)

// role permits the service account deployer of the namespace something once it is bound.
func (w *world) role(rules string) *unstructured.Unstructured {
	return w.fromYAML("{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: deployer, namespace: $NS}, rules: [" + rules + "]}")
}

func (w *world) binding() *unstructured.Unstructured {
	return w.fromYAML("{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: deployer, namespace: $NS}, " +
		"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: deployer}, " +
		"subjects: [{kind: ServiceAccount, name: deployer, namespace: $NS}]}")
}

// asDeployer is the world whose target acts as the service account deployer of its namespace.
func (w *world) asDeployer() *world {
	w.Helper()
	cfg := recorded(w.targetLog)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + w.ns + ":deployer"}
	out := *w
	var err error
	out.target.Dynamic, err = dynamic.NewForConfig(cfg)
	w.check(err)
	out.target.Metadata, err = metadata.NewForConfig(cfg)
	w.check(err)
	out.target.ServiceAccount = w.ns + "/deployer"
	return &out
}

// may waits until the server knows what the service account is permitted.
func (w *world) may(o *unstructured.Unstructured) {
	w.Helper()
	w.eventually("the role is in force", func() bool {
		_, err := w.target.Dynamic.Resource(resource(o)).Namespace(w.ns).Get(w.ctx, "nothing", getOptions)
		return isGone(err)
	})
}

func TestAServiceAccountAppliesWhatItMayAndNothingElse(t *testing.T) {
	w := newWorld(t)
	w.create(w.role(allOfConfigMaps))
	w.create(w.binding())
	d := w.asDeployer()
	cfg, secret, account := w.configMap("cfg", nil), w.secret("pw"), object("v1", "ServiceAccount", w.ns, "x")
	d.may(cfg)
	set := d.apply(cfg, secret, account)
	if set.Applied != 1 || len(set.Failed) != 2 {
		t.Fatalf("got %+v", set)
	}
	const wayOut = "/deployer there: give it that permission, or change spec.serviceAccountName"
	only(t, set.Failed[:1], "pw", "convoy acts as service account "+w.ns+wayOut, true)
	only(t, set.Failed[1:], "x", "convoy acts as service account "+w.ns+wayOut, true)
}

func TestWhatAServiceAccountMayNotMakeIsNotRecorded(t *testing.T) {
	w := newWorld(t)
	w.create(w.role(allOfConfigMaps))
	w.create(w.binding())
	d := w.asDeployer()
	cfg, secret := w.configMap("cfg", nil), w.secret("pw")
	d.may(cfg)
	for range 2 {
		if set := d.apply(cfg, secret); len(set.Failed) != 1 || len(d.record().Entries()) != 1 {
			t.Fatalf("got %+v, recorded %v", set, d.record().Entries())
		}
	}
	d.applied(cfg)
	if out := d.prune(cfg); !out.Done() {
		t.Errorf("after the source was corrected: %+v", out)
	}
	d.apply(cfg, secret)
	if out := d.delete(); !out.Done() || d.record().Stored() {
		t.Errorf("deletion: %+v", out)
	}
}

func TestWhatIsRefusedIsNotRecordedThoughTheApplyEndsEarly(t *testing.T) {
	w := newWorld(t)
	w.create(w.role(allOfConfigMaps))
	w.create(w.binding())
	d := w.asDeployer()
	d.may(w.configMap("cfg", nil))
	d.targetLog.intercept(breaking(http.MethodPatch, "/deployments/"))
	req := d.request(w.secret("pw"), w.deployment("app"))
	if _, err := Apply(d.ctx, d.target, d.ledger, req); err == nil {
		t.Fatal("the broken connection was not an error")
	}
	entries := d.record().Entries()
	if len(entries) != 1 || entries[0].Kind != "Deployment" {
		t.Errorf("recorded %v, want the object whose answer was lost", entries)
	}
}

// What was recorded before, or may have been stored by a request whose answer says otherwise or was lost.
func TestWhatMayBeOnTheTargetStaysRecordedThoughItIsRefused(t *testing.T) {
	status := func(r *http.Request, code int, reason metav1.StatusReason) *http.Response {
		return reply(r, code, fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`, reason, code))
	}
	for name, test := range map[string]struct {
		applied, forgotten bool
		first              func(*http.Request) *http.Response // nil passes the first patch on; all later ones are forbidden
	}{
		"recorded": {applied: true, first: func(r *http.Request) *http.Response {
			return status(r, http.StatusForbidden, metav1.StatusReasonForbidden)
		}},
		"only its marks": {applied: true, forgotten: true},
		"no sure refusal": {first: func(r *http.Request) *http.Response {
			return status(r, http.StatusGatewayTimeout, metav1.StatusReasonTimeout)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			o := w.configMap("cfg", map[string]string{"a": "1"})
			if test.applied {
				w.applied(o)
			}
			if test.forgotten {
				w.check(w.ledger.Abandon(w.ctx, w.record()))
			}
			patches := 0
			w.targetLog.intercept(func(r *http.Request) (*http.Response, error) {
				if r.Method != http.MethodPatch {
					return nil, nil
				}
				if patches++; patches > 1 {
					return status(r, http.StatusForbidden, metav1.StatusReasonForbidden), nil
				}
				if test.first == nil {
					return nil, nil
				}
				return test.first(r), nil
			})
			for range 2 {
				if set := w.apply(o); len(set.Failed) != 1 || len(w.record().Entries()) != 1 {
					t.Errorf("got %+v, recorded %v", set, w.record().Entries())
				}
			}
		})
	}
}

func TestADeletionWhoseServiceAccountLostItsPermissionsIsAnErrorWithAWayOut(t *testing.T) {
	w := newWorld(t)
	w.create(w.role(allOfConfigMaps))
	binding := w.create(w.binding())
	d, cfg := w.asDeployer(), w.configMap("cfg", nil)
	d.may(cfg)
	d.applied(cfg)
	w.remove(binding)
	d.eventually("the role is not in force", func() bool {
		_, err := d.target.Dynamic.Resource(resource(cfg)).Namespace(w.ns).Get(w.ctx, "nothing", getOptions)
		return !isGone(err)
	})
	out := d.delete()
	only(t, out.Failed, "cfg", "does not let convoy read it (Forbidden); convoy acts as service account "+w.ns+"/deployer there: give it", true)
	if out := w.delete(); !out.Done() || w.live(cfg) != nil { // without one
		t.Errorf("got %+v", out)
	}
}

func TestTheRoleBindingThatADeletionLivesOnGoesLast(t *testing.T) {
	w := newWorld(t)
	w.create(w.role(allOfConfigMaps + ", " + allOfBindings))
	binding, cfg := w.binding(), w.configMap("zz", nil)
	w.applied(binding, cfg) // the first time as somebody who may grant
	d := w.asDeployer()
	d.may(cfg)
	if out := d.delete(); !out.Done() || out.Removed != 2 || w.live(cfg) != nil || w.live(binding) != nil || w.record().Stored() {
		t.Errorf("got %+v", out)
	}
}

func TestAServiceAccountLearnsOfANamespaceOnlyWhatItMayListItself(t *testing.T) {
	w := newWorld(t)
	home := w.fromYAML(`{apiVersion: v1, kind: Namespace, metadata: {name: $NS-home}}`)
	role := w.fromYAML(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: $NS}, rules: [` +
		`{apiGroups: [""], resources: [namespaces], verbs: ["*"]}, ` + allOfConfigMaps + `]}`)
	binding := w.fromYAML(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: $NS}, ` +
		`roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: $NS}, subjects: [{kind: ServiceAccount, name: deployer, namespace: $NS}]}`)
	w.create(role)
	w.create(binding)
	defer w.remove(role)
	defer w.remove(binding)
	d := w.asDeployer()
	d.may(w.configMap("cfg", nil))
	d.applied(home)
	seen, unseen := object("v1", "ConfigMap", home.GetName(), "theirs"), object("v1", "Secret", home.GetName(), "of-others")
	w.create(seen)
	w.create(unseen)
	only(t, d.delete().Survivors, home.GetName(), "it still holds ConfigMap "+home.GetName()+"/theirs", false)
	w.remove(seen)
	only(t, d.delete().Survivors, home.GetName(), "it still holds secrets, which service account "+w.ns+"/deployer may not list: remove them first", false)
	w.remove(unseen)
	go w.finalize(home)
	if out := d.delete(); !out.Done() {
		t.Errorf("got %+v", out)
	}
}

func TestRoleBindingsGoInTheirOrderUnlessTheyMayBeLivedOn(t *testing.T) {
	entries := []v1alpha1.InventoryEntry{
		{Group: "rbac.authorization.k8s.io", Kind: "RoleBinding", Namespace: "a", Name: "b"}, {Kind: "Namespace", Name: "a"},
	}
	order := func(last bool) (kinds []string) {
		for _, w := range wavesOf(entries, last) {
			for _, e := range w.entries {
				kinds = append(kinds, e.Kind)
			}
		}
		return kinds
	}
	if diff := cmp.Diff([]string{"RoleBinding", "Namespace"}, order(false)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"Namespace", "RoleBinding"}, order(true)); diff != "" {
		t.Error(diff)
	}
	if delivery.StageOf(RefOf(entries[0]).GroupKind()) != delivery.StageConfig {
		t.Error("a RoleBinding is applied with the configuration")
	}
}
