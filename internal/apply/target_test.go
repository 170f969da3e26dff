package apply

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kumodo.io/convoy/api/v1alpha1"
)

// breakGroup registers an API group whose server does not exist, and waits until discovery reports it as failing.
func (w *world) breakGroup(group string) {
	w.Helper()
	o := w.fromYAML(fmt.Sprintf(`
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.%[1]s}
spec: {group: %[1]s, version: v1, groupPriorityMinimum: 100, versionPriority: 10, insecureSkipTLSVerify: true, service: {name: nobody, namespace: default}}
`, group))
	w.create(o)
	w.Cleanup(func() {
		w.ctx = context.Background()
		w.remove(o)
		w.eventually("discovery has recovered", func() bool {
			w.target.Discovery.Invalidate()
			_, _, err := w.target.Discovery.ServerGroupsAndResources()
			return err == nil
		})
	})
	w.eventually("the group is failing", func() bool {
		w.target.Discovery.Invalidate()
		_, _, err := w.target.Discovery.ServerGroupsAndResources()
		return err != nil
	})
	w.target.Mapper.Reset()
}

func TestABrokenAPIGroupConcernsOnlyWhoNeedsIt(t *testing.T) {
	w := newWorld(t)
	broken := "broken." + w.ns + ".example.test"
	w.breakGroup(broken)
	thing := object(broken+"/v1", "Thing", w.ns, "thing")
	cfg := w.configMap("cfg", nil)
	set := w.apply(thing, cfg)
	only(t, set.Failed, "thing", "the API group "+broken+" does not answer", false)
	if w.live(cfg) == nil {
		t.Fatal("the other object was not applied")
	}
	// As if it had been applied while the group was healthy.
	w.check(w.ledger.Announce(w.ctx, w.record(), []v1alpha1.InventoryEntry{{Group: broken, Version: "v1", Kind: "Thing", Namespace: w.ns, Name: "thing", UID: "1"}}))
	home := object("v1", "Namespace", "", w.ns+"-home")
	w.apply(thing, cfg, home)

	out := w.delete()
	if len(out.Waiting) != 2 || out.Waiting[0].Ref.Name != home.GetName() && out.Waiting[1].Ref.Name != home.GetName() {
		t.Errorf("got %+v", out)
	}
	if w.live(cfg) != nil || w.live(home).GetDeletionTimestamp() != nil {
		t.Error("the ConfigMap is there, or the Namespace is not")
	}
	if diff := cmp.Diff([]string{"Namespace/" + home.GetName(), "Thing/thing"}, names(w.record().Entries())); diff != "" {
		t.Error(diff)
	}
	rebuilt, err := Rebuild(w.ctx, w.target, w.owner)
	w.check(err)
	if diff := cmp.Diff([]string{broken}, rebuilt.Unseen); diff != "" {
		t.Errorf("unseen: %s", diff)
	}
}

const sentinel = "S3NT1NEL-7f3a"

func (w *world) secret(name string) *unstructured.Unstructured {
	o := object("v1", "Secret", w.ns, name)
	o.Object["stringData"] = map[string]any{"note": sentinel}
	return o
}

// refuseAll makes the server refuse ConfigMaps and Secrets of the namespace that are called refused, and say what
// is in them.
func (w *world) refuseAll() {
	w.Helper()
	policy := w.fromYAML(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: $NS}
spec:
  failurePolicy: Fail
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: $NS}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps, secrets]}]
  validations:
  - expression: "!object.metadata.name.startsWith('refused')"
    messageExpression: "'it holds ' + (has(object.data) ? object.data.map(k, string(object.data[k])).join(',') : '')"
`)
	binding := w.fromYAML(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: $NS}
spec: {policyName: $NS, validationActions: [Deny]}
`)
	for _, o := range []*unstructured.Unstructured{policy, binding} {
		c := w.admin.Resource(resource(o))
		if strings.HasSuffix(o.GetKind(), "Policy") {
			c = w.admin.Resource(o.GroupVersionKind().GroupVersion().WithResource("validatingadmissionpolicies"))
		}
		_, err := c.Create(w.ctx, o, metav1.CreateOptions{})
		w.check(err)
		w.Cleanup(func() { _ = c.Delete(context.Background(), o.GetName(), metav1.DeleteOptions{}) })
	}
	probe := w.configMap("refused-probe", nil)
	w.eventually("the policy is in force", func() bool {
		_, err := w.client(probe).Create(w.ctx, probe, metav1.CreateOptions{DryRun: []string{"All"}})
		return err != nil
	})
}

func TestAValueOfASecretNeverComesIntoAMessage(t *testing.T) {
	w := newWorld(t)
	w.refuseAll()
	echo := w.configMap("refused-echo", map[string]string{"copy": "prefix " + sentinel + " suffix"})
	secret := w.secret("refused")
	wrong := w.secret("wrong")
	wrong.Object["stringData"] = map[string]any{"pw": int64(8675309), "note": sentinel}
	set := w.apply(echo, secret, wrong, w.secret("fine"))
	if len(set.Failed) != 3 {
		t.Fatalf("failed: %v", set.Failed)
	}
	for _, e := range set.Failed {
		if strings.Contains(e.Message, sentinel) || strings.Contains(e.Message, "8675309") {
			t.Errorf("%s", e)
		}
	}
	if m := set.Failed[0].Message; !strings.Contains(m, "it holds prefix *** suffix") {
		t.Errorf("the message of the ConfigMap is %q", m)
	}
	if m := set.Failed[1].Message; !strings.Contains(m, "refused it (Invalid)") {
		t.Errorf("the message of the Secret is %q", m)
	}
}

func TestAWebhookThatDoesNotAnswerIsTransientAndItsMessageHasNoAddress(t *testing.T) {
	w := newWorld(t)
	hook := w.fromYAML(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: $NS}
webhooks:
- name: hook.$NS.example.test
  admissionReviewVersions: [v1]
  sideEffects: None
  timeoutSeconds: 1
  clientConfig: {url: "https://127.0.0.1:1/hook"}
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: $NS}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
`)
	w.create(hook)
	w.Cleanup(func() { w.ctx = context.Background(); w.remove(hook) })
	probe := w.configMap("probe", nil)
	w.eventually("the webhook is called", func() bool {
		_, err := w.client(probe).Create(w.ctx, probe, metav1.CreateOptions{DryRun: []string{"All"}})
		return err != nil
	})
	set := w.apply(w.configMap("cfg", nil))
	only(t, set.Failed, "cfg", "the admission webhook hook."+w.ns+".example.test could not be called", false)
	if strings.Contains(set.Failed[0].Message, "127.0.0.1") {
		t.Error(set.Failed[0].Message)
	}
}

func TestTheCodeOfAnAnswerDecidesWhetherWaitingMayHeal(t *testing.T) {
	status := `{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q,"message":"said at 12:00 by 10.0.0.1"}`
	tests := map[string]struct {
		code     int
		reason   string
		terminal bool
	}{
		"400": {400, "BadRequest", true}, "403": {403, "Forbidden", true}, "422": {422, "Invalid", true},
		"413": {413, "RequestEntityTooLarge", true},
		"429": {429, "TooManyRequests", false}, "500": {500, "InternalError", false}, "503": {503, "ServiceUnavailable", false},
		"504": {504, "Timeout", false}, "409": {409, "Conflict", false}, "404": {404, "NotFound", false},
	}
	w := newWorld(t)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := *w
			w.T = t
			w.targetLog.intercept(func(r *http.Request) (*http.Response, error) {
				if r.Method != http.MethodPatch {
					return nil, nil
				}
				return reply(r, tc.code, fmt.Sprintf(status, tc.code, tc.reason)), nil
			})
			set := w.apply(w.configMap("cfg", nil))
			only(t, set.Failed, "cfg", "", tc.terminal)
			if !tc.terminal && strings.Contains(set.Failed[0].Message, "10.0.0.1") {
				t.Errorf("the message is not stable: %s", set.Failed[0].Message)
			}
		})
	}
}

func TestATargetThatCannotBeUsedAtAllIsAnErrorOfTheWholeApply(t *testing.T) {
	tests := map[string]func(*http.Request) (*http.Response, error){
		"a broken connection":    breaking("PATCH", "/"),
		"revoked credentials":    answering(401, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":401,"reason":"Unauthorized"}`),
		"something else answers": answering(200, `<html>welcome</html>`),
	}
	for name, answer := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.targetLog.intercept(answer)
			begin := time.Now()
			set, err := Apply(w.ctx, w.target, w.ledger, w.request(w.fourObjects()...))
			if err == nil || errors.Is(err, ErrHub) || set.Applied != 0 || len(set.Failed) != 0 {
				t.Errorf("got %+v, %v", set, err)
			}
			if time.Since(begin) > 20*time.Second {
				t.Errorf("it took %s", time.Since(begin))
			}
		})
	}
}

func answering(code int, body string) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) { return reply(r, code, body), nil }
}

func TestProgressIsReportedForEachObjectOneCallAtATime(t *testing.T) {
	w := newWorld(t)
	var seen []Progress
	req := w.request(w.fourObjects()...)
	req.Progress = func(p Progress) { seen = append(seen, p) } // the race detector watches
	_, err := Apply(w.ctx, w.target, w.ledger, req)
	w.check(err)
	last := seen[len(seen)-1]
	if last.Done != 4 || last.Of != 4 || len(seen) < 8 {
		t.Errorf("%d calls, the last %+v", len(seen), last)
	}
}

func TestAPathThatTheServerDoesNotHaveIsNoObjectThatIsGone(t *testing.T) {
	w := newWorld(t)
	o := w.configMap("cfg", nil)
	w.applied(o)
	w.targetLog.intercept(func(r *http.Request) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, "/configmaps/cfg") {
			resp := reply(r, 404, "404 page not found")
			resp.Header.Set("Content-Type", "text/plain")
			return resp, nil
		}
		return nil, nil
	})
	out, err := w.deleteWithin(time.Second)
	if err == nil || out.Removed != 0 || w.record().Len() != 1 {
		t.Errorf("got %+v, %v", out, err)
	}
	w.targetLog.intercept(nil)
	if out := w.delete(); out.Removed != 1 {
		t.Errorf("got %+v", out)
	}
}
