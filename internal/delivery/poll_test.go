package delivery

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kumodo.io/convoy/api/v1alpha1"
)

func TestReleasesShareAPollWhenURLReferenceAndCredentialsAreTheSame(t *testing.T) {
	git := func(change func(*v1alpha1.GitSource)) v1alpha1.Source {
		s := &v1alpha1.GitSource{URL: "https://git.example.test/app", Ref: v1alpha1.GitRef{Branch: "main"}}
		change(s)
		return v1alpha1.Source{Git: s}
	}
	base := git(func(*v1alpha1.GitSource) {})
	secret := &v1alpha1.SourceSecretRef{Name: "git"}
	slow := base
	slow.PollInterval = metav1.Duration{Duration: time.Hour}
	cases := map[string]struct {
		namespace string
		source    v1alpha1.Source
		shared    bool
	}{
		"the same":           {"default", base, true},
		"another path":       {"default", git(func(s *v1alpha1.GitSource) { s.Path, s.Submodules = "apps", true }), true},
		"another interval":   {"default", slow, true},
		"another namespace":  {"other", base, true},
		"another branch":     {"default", git(func(s *v1alpha1.GitSource) { s.Ref.Branch = "next" }), false},
		"a tag of that name": {"default", git(func(s *v1alpha1.GitSource) { s.Ref = v1alpha1.GitRef{Tag: "main"} }), false},
		"another URL":        {"default", git(func(s *v1alpha1.GitSource) { s.URL += "2" }), false},
		"credentials":        {"default", git(func(s *v1alpha1.GitSource) { s.SecretRef = secret }), false},
		"another kind":       {"default", v1alpha1.Source{Helm: &v1alpha1.HelmSource{URL: "https://git.example.test/app", Chart: "main"}}, false},
	}
	one, _ := PollOf("default", base)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			poll, polled := PollOf(tc.namespace, tc.source)
			if shared := polled && poll.ID() == one.ID(); shared != tc.shared {
				t.Errorf("shared = %v, want %v", shared, tc.shared)
			}
		})
	}
	with := git(func(s *v1alpha1.GitSource) { s.SecretRef = secret })
	here, _ := PollOf("default", with)
	there, _ := PollOf("other", with)
	if here.ID() == there.ID() {
		t.Error("credentials of one namespace serve another")
	}
	if _, polled := PollOf("default", v1alpha1.Source{ConfigMap: &v1alpha1.ConfigMapSource{Name: "app"}}); polled {
		t.Error("a ConfigMap is polled")
	}
}

func TestAPollSaysWhatItLooksAt(t *testing.T) {
	for want, src := range map[string]v1alpha1.Source{
		"https://git.example.test/app":                     {Git: &v1alpha1.GitSource{URL: "https://git.example.test/app", Path: "a"}},
		"https://git.example.test/app, tags 1.x":           {Git: &v1alpha1.GitSource{URL: "https://git.example.test/app", Ref: v1alpha1.GitRef{SemVer: "1.x"}}},
		"oci://example.test/app, tag v1":                   {OCI: &v1alpha1.OCISource{URL: "oci://example.test/app", Ref: v1alpha1.OCIRef{Tag: "v1"}}},
		"https://charts.example.test, chart a, version >1": {Helm: &v1alpha1.HelmSource{URL: "https://charts.example.test", Chart: "a", Version: ">1"}},
	} {
		if poll, _ := PollOf("default", src); poll.String() != want {
			t.Errorf("%q, want %q", poll, want)
		}
	}
	long, _ := PollOf("default", v1alpha1.Source{Git: &v1alpha1.GitSource{URL: "https://git.example.test/" + strings.Repeat("ä", 1000)}})
	if n := len(long.String()); n > 350 {
		t.Errorf("%d bytes, more than a summary may have", n)
	}
}
