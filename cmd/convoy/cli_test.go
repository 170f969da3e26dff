package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"kumodo.io/convoy/api/v1alpha1"
)

func TestTheProgramIsCalledAsPeopleTypeIt(t *testing.T) {
	for program, want := range map[string]string{
		"convoy": "convoy", "/usr/bin/convoy": "convoy", "./convoy-linux": "convoy",
		"/home/x/bin/kubectl-convoy": "kubectl convoy", "kubectl-convoy.exe": "kubectl convoy",
	} {
		if got := calledAs(program); got != want {
			t.Errorf("%s: %s, want %s", program, got, want)
		}
	}
	for name, want := range map[string][]string{
		"convoy":         {"\n  convoy approve release NAME [flags]\n", "\n  convoy diff release podinfo\n"},
		"kubectl convoy": {"\n  kubectl convoy approve release NAME [flags]\n", "\n  kubectl convoy diff release podinfo\n"},
	} {
		var out bytes.Buffer
		root := rootCommand(name)
		root.SetOut(&out)
		root.SetArgs([]string{"approve", "--help"})
		if err := root.Execute(); err != nil {
			t.Fatal(err)
		}
		for _, part := range want {
			if !strings.Contains(out.String(), part) {
				t.Errorf("%s prints %s, want %q", name, out.String(), part)
			}
		}
	}
}

// ofStdin is a render of the standard input.
func ofStdin() *rendering {
	r := &rendering{}
	r.bind(pflag.NewFlagSet("", pflag.ContinueOnError))
	r.Files = []string{"-"}
	return r
}

func TestARenderOfFilesReadsFromTheHubWhatTheyDoNotHold(t *testing.T) {
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "default", Name: name} }
	r := &v1alpha1.Release{ObjectMeta: at("app")}
	r.Status.Render = &v1alpha1.RenderStatus{Type: v1alpha1.RenderPlain}
	c := &v1alpha1.Cluster{ObjectMeta: at("east")}
	c.Spec.ConnectionMode, c.Spec.Metadata = v1alpha1.ConnectionModeAgentless, map[string]v1alpha1.MetadataValue{"region": "eu-1"}
	source := &corev1.ConfigMap{ObjectMeta: at("app"), Data: map[string]string{"app.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: {text: of the hub}}"}}
	hub := fake.NewClientBuilder().WithScheme(scheme).WithObjects(r, c, source).Build()

	text := func(files string) string {
		t.Helper()
		done, err := ofStdin().render(t.Context(), strings.NewReader(files), hub)
		if err != nil {
			t.Fatal(err)
		}
		return string(done.Canonical)
	}
	if got := text(plainRelease); !strings.Contains(got, `"region":"eu-1","text":"of the hub"`) {
		t.Errorf("with the hub's Cluster and source: %s", got)
	}
	files := strings.Join([]string{plainRelease, strings.Replace(eastCluster, "eu-1", "eu-2", 1), appSource}, "---\n")
	if got := text(files); !strings.Contains(got, `"region":"eu-2","text":"hello"`) {
		t.Errorf("with those of the files: %s", got)
	}
	other := strings.Replace(plainRelease, "{name: east}", "{name: west}", 1)
	if _, err := ofStdin().render(t.Context(), strings.NewReader(other), hub); err == nil || !strings.Contains(err.Error(), "read Cluster default/west, which the files do not hold") {
		t.Errorf("without the Cluster: %v", err)
	}
}
