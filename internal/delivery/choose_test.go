package delivery

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kumodo.io/convoy/api/v1alpha1"
)

// digest is a digest that begins with a word of hexadecimal digits.
func digest(begin string) string { return "sha256:" + begin + strings.Repeat("0", 64-len(begin)) }

func ref(begin string) v1alpha1.RenderRef {
	return v1alpha1.RenderRef{Name: "render-" + begin, Digest: digest(begin)}
}

func past(number int64, phase v1alpha1.RolloutPhase, begin string) v1alpha1.RolloutRecord {
	return v1alpha1.RolloutRecord{Number: number, Phase: phase, Digest: digest(begin)}
}

// rolled is a Release after four rollouts, the last of which failed: renders aa1, aa2, again aa2, and bb3.
func rolled() *v1alpha1.Release {
	r := &v1alpha1.Release{}
	last := ref("bb3")
	r.Status.RenderRef = &last
	r.Status.PreviousRenderRefs = []v1alpha1.RenderRef{ref("aa2"), ref("aa1")}
	r.Status.Rollout = &v1alpha1.RolloutStatus{Number: 4, Phase: v1alpha1.RolloutFailed, Digest: digest("bb3")}
	r.Status.History = []v1alpha1.RolloutRecord{
		past(4, v1alpha1.RolloutFailed, "bb3"), past(3, v1alpha1.RolloutSuperseded, "cc4"),
		past(2, v1alpha1.RolloutSucceeded, "aa2"), past(1, v1alpha1.RolloutSucceeded, "aa1"),
	}
	return r
}

// wantChoice compares a decision with a digest, or with a part of the error.
func wantChoice(t *testing.T, name, got string, err error, want, problem string) {
	t.Helper()
	switch {
	case problem == "" && (err != nil || got != digest(want)):
		t.Errorf("%s: %s, %v; want %s", name, got, err, digest(want))
	case problem != "" && (err == nil || !strings.Contains(err.Error(), problem)):
		t.Errorf("%s: %s, %v; want an error with %q", name, got, err, problem)
	}
}

func TestARollbackGoesToTheLastOtherRenderThatSucceeded(t *testing.T) {
	for _, c := range []struct {
		name          string
		change        func(*v1alpha1.Release)
		want, problem string
	}{
		{"after a failure", func(*v1alpha1.Release) {}, "aa2", ""},
		{"after a success", func(r *v1alpha1.Release) {
			r.Status.Rollout.Phase, r.Status.History[0].Phase = v1alpha1.RolloutSucceeded, v1alpha1.RolloutSucceeded
		}, "aa2", ""},
		{"while one is under way, which the history does not have", func(r *v1alpha1.Release) {
			r.Status.Rollout.Phase, r.Status.History = v1alpha1.RolloutRunning, r.Status.History[1:]
		}, "aa2", ""},
		{"the same render twice", func(r *v1alpha1.Release) {
			r.Status.Rollout.Digest = digest("aa2")
		}, "aa1", ""},
		{
			"not kept", func(r *v1alpha1.Release) { r.Status.PreviousRenderRefs = r.Status.PreviousRenderRefs[1:] }, "",
			"sha256:aa2000000000 of rollout 2, is not kept any more; kept are sha256:bb3000000000 (rollout 4), sha256:aa1000000000 (rollout 1)",
		},
		{"pinned", func(r *v1alpha1.Release) { r.Spec.PinnedRender = digest("aa1") }, "", "it is pinned to render sha256:aa1000000000 already"},
		{"never rolled out", func(r *v1alpha1.Release) { r.Status = v1alpha1.ReleaseStatus{} }, "", "no rollout yet"},
		{"nothing succeeded", func(r *v1alpha1.Release) { r.Status.History = r.Status.History[:2] }, "", "no rollout of another render that succeeded; kept are"},
	} {
		r := rolled()
		c.change(r)
		got, err := RenderBefore(r)
		wantChoice(t, c.name, got.Digest, err, c.want, c.problem)
	}
}

func TestARenderIsChosenByItsRolloutOrTheBeginningOfItsDigest(t *testing.T) {
	pending := ref("123")
	for _, c := range []struct{ choice, want, problem string }{
		{"1", "aa1", ""},
		{"4", "bb3", ""},
		{"3", "", "the render of rollout 3, sha256:cc4000000000, is not kept any more"},
		{"bb", "bb3", ""},
		{"sha256:bb3", "bb3", ""},
		{digest("aa1"), "aa1", ""},
		{"aa", "", `"aa" begins the digests of 2 kept renders`},
		{"sha256:", "", "is neither a rollout in the history nor the beginning"},
		{"cc4", "", "neither a rollout"},
		{"9", "", "neither a rollout"},
		{"12", "123", ""}, // no rollout 12 is known
		{"sha256:1", "123", ""},
	} {
		s := rolled().Status
		s.Pending = &v1alpha1.PendingRender{RenderRef: pending}
		got, err := ChooseRender(&s, c.choice)
		wantChoice(t, c.choice, got.Digest, err, c.want, c.problem)
	}
	if _, err := ChooseRender(&v1alpha1.ReleaseStatus{}, "1"); err == nil || !strings.Contains(err.Error(), "no render is kept") {
		t.Errorf("of nothing: %v", err)
	}
}

func TestARenderThatIsKeptUnderTwoNamesIsOneChoice(t *testing.T) {
	s := rolled().Status
	s.Pending = &v1alpha1.PendingRender{RenderRef: ref("aa2")} // the source went back
	got, err := ChooseRender(&s, "aa2")
	wantChoice(t, "aa2", got.Digest, err, "aa2", "")
}

func TestOnlyTheRenderThatWaitsForAnApprovalIsApproved(t *testing.T) {
	for _, c := range []struct {
		name, reason, given, problem string
	}{
		{"any", v1alpha1.ReasonAwaitingApproval, "", ""},
		{"this one", v1alpha1.ReasonAwaitingApproval, digest("dd5"), ""},
		{"this one, by its beginning", v1alpha1.ReasonAwaitingApproval, "sha256:dd5", ""},
		{"another one", v1alpha1.ReasonAwaitingApproval, "sha256:aa2", "the render that waits is " + digest("dd5") + ", and not sha256:aa2"},
		{"it waits for a window", v1alpha1.ReasonOutsideWindow, "", "does not wait for an approval: the next window"},
		{"none", "", "", "no render of it waits for an approval: Delivered: rollout 4"},
	} {
		r := rolled()
		r.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonDelivered, Message: "rollout 4"}}
		if c.reason != "" {
			r.Status.Pending = &v1alpha1.PendingRender{RenderRef: ref("dd5"), Reason: c.reason, Message: "the next window"}
		}
		got, err := Approvable(r, c.given)
		wantChoice(t, c.name, got, err, "dd5", c.problem)
	}
}

func TestAHookIsApprovedForTheRolloutThatIsUnderWay(t *testing.T) {
	r := rolled()
	_, err := ApprovableHook(r, "check", "")
	wantChoice(t, "without hooks", "", err, "", `spec.hooks has no hook "check"; none of its hooks waits for an Approval`)
	r.Spec.Hooks = []v1alpha1.Hook{
		{Name: "check", Phase: v1alpha1.HookPreApply, Approval: &v1alpha1.HookApproval{}},
		{Name: "migrate", Phase: v1alpha1.HookPreApply, Job: &v1alpha1.HookJob{}},
		{Name: "sign", Phase: v1alpha1.HookPostApply, Approval: &v1alpha1.HookApproval{}},
	}
	_, err = ApprovableHook(r, "chek", "")
	wantChoice(t, "unknown", "", err, "", `spec.hooks has no hook "chek"; those that wait for an Approval are check (PreApply), sign (PostApply)`)
	_, err = ApprovableHook(r, "migrate", "")
	wantChoice(t, "of another kind", "", err, "", "hook migrate (PreApply) is no approval but does something itself: Job; those that wait")
	_, err = ApprovableHook(r, "check", "")
	wantChoice(t, "ended", "", err, "", "no rollout of it is under way, so hook check waits for nothing")
	r.Status.Rollout.Phase = v1alpha1.RolloutFailed
	_, err = ApprovableHook(r, "check", "")
	wantChoice(t, "it took too long", "", err, "", "hook check waits for nothing: convoy reconcile "+r.Name+" begins another one")
	r.Status.Rollout.Phase = v1alpha1.RolloutRunning
	r.Status.Hooks = []v1alpha1.HookStatus{{Name: "sign", Phase: v1alpha1.HookPostApply, Rollout: 4, State: v1alpha1.HookSucceeded, Message: "approved by jo"}}
	_, err = ApprovableHook(r, "sign", "")
	wantChoice(t, "approved", "", err, "", "hook sign of rollout 4, which is under way, has ended: Succeeded: approved by jo")
	r.Status.Hooks[0].Rollout = 3
	got, err := ApprovableHook(r, "sign", "")
	wantChoice(t, "of a rollout before", got, err, "bb3", "")
	got, err = ApprovableHook(r, "check", "bb")
	wantChoice(t, "under way", got, err, "bb3", "")
	_, err = ApprovableHook(r, "check", "aa2")
	wantChoice(t, "another", "", err, "", "rollout 4, which is under way, has render "+digest("bb3"))
}
