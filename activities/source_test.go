package activities

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/api/serviceerror"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/source"
	"kumodo.io/convoy/internal/status"
)

// told notes which workflows got which revision.
type told struct {
	mu   sync.Mutex
	ids  []string
	fail func(id string) error
}

func (k *told) SignalWorkflow(_ context.Context, id, _, name string, arg any) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fail != nil {
		if err := k.fail(id); err != nil {
			return err
		}
	}
	news, ok := arg.(delivery.News)
	if !ok || name != delivery.SignalNews || news.UID == "" {
		return fmt.Errorf("signal %s with %T", name, arg)
	}
	k.ids = append(k.ids, id+" "+news.UID)
	return nil
}

func (k *told) sorted() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	slices.Sort(k.ids)
	return slices.Clone(k.ids)
}

func using(namespace, name string, src v1alpha1.Source, revision string) *v1alpha1.Release {
	r := &v1alpha1.Release{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + name), Generation: 1}}
	r.Spec.ClusterRef.Name, r.Spec.Source = "east", src
	if revision != "" {
		r.Status.Source = &v1alpha1.SourceStatus{Revision: revision}
		r.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionSourceReady, Status: metav1.ConditionTrue}}
	}
	return r
}

func TestWhoIsToldOfWhatALookAtASourceFound(t *testing.T) {
	// A file URL that the operator does not permit fails without a network.
	src := v1alpha1.Source{Git: &v1alpha1.GitSource{URL: "file:///srv/app", Path: "one"}}
	other := v1alpha1.Source{Git: &v1alpha1.GitSource{URL: "file:///srv/app", Path: "two"}}
	foreign := v1alpha1.Source{Git: &v1alpha1.GitSource{URL: "file:///srv/else"}}
	leaving := using("default", "leaving", src, "")
	leaving.Finalizers, leaving.DeletionTimestamp = []string{v1alpha1.ReleaseFinalizer}, new(metav1.Now())
	failing := using("default", "failing", src, "main@sha1:1")
	failing.Status.Conditions[0].Status = metav1.ConditionFalse
	hub := hubWith(t, interceptor.Funcs{},
		using("default", "a", src, "main@sha1:1"), using("other", "b", other, ""), failing, leaving,
		using("default", "stranger", foreign, ""), using("default", "local", v1alpha1.Source{ConfigMap: &v1alpha1.ConfigMapSource{Name: "x"}}, ""),
	)
	poll, _ := delivery.PollOf("default", src)
	invalid := delivery.Word{
		Poll: poll.ID(), Reason: v1alpha1.ReasonSourceInvalid,
		Message: "spec.source.git.url is a file URL, which convoy reads only when its operator permits it with --allow-file-sources",
	}
	all := []string{"release/default/a uid-a", "release/default/failing uid-failing", "release/other/b uid-b"}
	cases := map[string]struct {
		in    LookInput
		want  []string
		users *int
	}{
		"another word":           {LookInput{Poll: poll, Last: delivery.Word{Poll: poll.ID(), Revision: "main@sha1:1"}}, all, new(3)},
		"the first word":         {LookInput{Poll: poll}, all, new(3)},
		"the same word":          {LookInput{Poll: poll, Last: invalid}, nil, nil},
		"one who joined":         {LookInput{Poll: poll, Last: invalid, Joined: true}, []string{"release/default/a uid-a"}, new(3)}, // the others say so
		"users that are counted": {LookInput{Poll: poll, Last: invalid, Count: true}, []string{"release/default/a uid-a"}, new(3)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			kicks := &told{}
			a := &Activities{Deps: Deps{Hub: hub, Kicks: kicks, Sources: source.New(hub, nil, source.Limits{})}}
			out, err := a.LookSource(t.Context(), tc.in)
			if err != nil {
				t.Fatal(err)
			}
			if !out.Word.Same(invalid) {
				t.Errorf("found %+v", out.Word)
			}
			if diff := cmp.Diff(tc.want, kicks.sorted()); diff != "" {
				t.Errorf("told (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.users, out.Users); diff != "" {
				t.Errorf("users (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAReleaseWithoutAWorkflowIsNotWaitedForButATemporalThatFailsIsTriedAgain(t *testing.T) {
	src := v1alpha1.Source{Git: &v1alpha1.GitSource{URL: "file:///srv/app"}}
	poll, _ := delivery.PollOf("default", src)
	hub := hubWith(t, interceptor.Funcs{}, using("default", "a", src, ""), using("default", "b", src, ""))
	kicks := &told{}
	a := &Activities{Deps: Deps{Hub: hub, Kicks: kicks, Sources: source.New(hub, nil, source.Limits{})}}
	kicks.fail = func(id string) error {
		if id == "release/default/a" {
			return serviceerror.NewNotFound("workflow execution already completed")
		}
		return nil
	}
	if _, err := a.LookSource(t.Context(), LookInput{Poll: poll}); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"release/default/b uid-b"}, kicks.sorted()); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	kicks.fail = func(string) error { return serviceerror.NewUnavailable("down") }
	if _, err := a.LookSource(t.Context(), LookInput{Poll: poll}); err == nil {
		t.Error("nobody was told, and the look counts as done")
	}
}

func TestWhatIsKnownOfASourceIsTakenUnlessTheReleaseNamesAnotherOrAsksItself(t *testing.T) {
	r := using("default", "app", v1alpha1.Source{Git: &v1alpha1.GitSource{URL: "file:///srv/app"}}, "")
	poll, _ := delivery.PollOf("default", r.Spec.Source)
	failing := delivery.Word{Poll: poll.ID(), Reason: v1alpha1.ReasonSourceFailed, Message: "repository file:///srv/app does not answer"}
	elsewhere := failing
	elsewhere.Poll = "another"
	cases := map[string]struct {
		in   FetchInput
		want string // the message of the condition SourceReady
		look bool
	}{
		"known to fail":    {FetchInput{Word: failing}, failing.Message, false},
		"asked for":        {FetchInput{Word: failing, Fresh: true}, "--allow-file-sources", true},
		"another source":   {FetchInput{Word: elsewhere}, "--allow-file-sources", true},
		"nothing is known": {FetchInput{}, "--allow-file-sources", true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			hub := hubWith(t, interceptor.Funcs{}, r.DeepCopy())
			a := &Activities{Deps: Deps{Hub: hub, Status: status.NewWriter(hub, events.NewFakeRecorder(8)), Sources: source.New(hub, nil, source.Limits{})}}
			tc.in.Key = delivery.Key{Namespace: "default", Name: "app", UID: string(r.UID)}
			out, err := a.FetchSource(t.Context(), tc.in)
			if looked := err != nil; looked != tc.look {
				t.Errorf("looked = %v: %+v, %v", looked, out, err)
			}
			if !tc.look && !out.Word.Same(failing) {
				t.Errorf("hands on %+v", out.Word)
			}
			var got v1alpha1.Release
			if err := hub.Get(t.Context(), client.ObjectKeyFromObject(r), &got); err != nil {
				t.Fatal(err)
			}
			var says []string
			for _, c := range got.Status.Conditions {
				if c.Type == v1alpha1.ConditionSourceReady && c.Status == metav1.ConditionFalse {
					says = append(says, c.Message)
				}
			}
			if len(says) != 1 || !strings.Contains(says[0], tc.want) {
				t.Errorf("the Release says %q, want %q", says, tc.want)
			}
		})
	}
}

func TestWhatIsKnownOfAFormerSourceIsForgottenWithIt(t *testing.T) {
	r := using("default", "app", v1alpha1.Source{ConfigMap: &v1alpha1.ConfigMapSource{Name: "app"}}, "")
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "app"}, Data: map[string]string{"a.yaml": "a"}}
	hub := hubWith(t, interceptor.Funcs{}, r, cm)
	a := &Activities{Deps: Deps{Hub: hub, Status: status.NewWriter(hub, events.NewFakeRecorder(8)), Sources: source.New(hub, nil, source.Limits{})}}
	in := FetchInput{
		Key:  delivery.Key{Namespace: "default", Name: "app", UID: string(r.UID)},
		Word: delivery.Word{Poll: "of a repository", Reason: v1alpha1.ReasonSourceFailed, Message: "it does not answer"},
	}
	out, err := a.FetchSource(t.Context(), in)
	if err != nil || out.Revision == "" || !out.Word.Same(delivery.Word{}) {
		t.Errorf("%+v, %v", out, err)
	}
}
