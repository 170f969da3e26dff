package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const before = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {color: {type: string}, size: {type: integer}}}}}
`

// checkout is a repository with a CRD.
type checkout struct {
	*testing.T
	repository
}

func newCheckout(t *testing.T) *checkout {
	t.Helper()
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	t.Setenv("GIT_CONFIG_SYSTEM", os.DevNull)
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		t.Setenv("GIT_"+who+"_NAME", "test")
		t.Setenv("GIT_"+who+"_EMAIL", "test@example.com")
	}
	c := &checkout{t, repository(t.TempDir())}
	c.do("init", "--quiet")
	c.write("readme", "first")
	c.commit()
	c.write("deploy/crd/widgets.yaml", before)
	c.commit()
	return c
}

func (c *checkout) do(args ...string) {
	c.Helper()
	if _, err := c.git(c.Context(), args...); err != nil {
		c.Fatal(err)
	}
}

func (c *checkout) write(name, text string) {
	c.Helper()
	path := filepath.Join(string(c.repository), filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		c.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.Fatal(err)
	}
}

func (c *checkout) commit() {
	c.Helper()
	c.do("add", "--all")
	c.do("commit", "--quiet", "--message=change")
}

// want checks the CRDs, which are to be taken when refusal is empty.
func (c *checkout) want(what, refusal string) {
	c.Helper()
	var out strings.Builder
	err := check(c.Context(), c.repository, "", &out)
	if refusal == "" && err != nil || refusal != "" && (err == nil || !strings.Contains(err.Error(), refusal)) {
		c.Errorf("%s: %q, %v, want %q", what, out.String(), err, refusal)
	}
}

func TestCRDsThatBreakWhatIsStoredAreRefused(t *testing.T) {
	c := newCheckout(t)
	c.want("the first CRD", "")
	const gone = "widgets.example.com: size is gone"
	after := strings.Replace(before, ", size: {type: integer}", "", 1)
	c.write("deploy/crd/widgets.yaml", after)
	c.want("not committed", gone)
	c.commit()
	c.want("committed", gone)
	c.write("readme", "second")
	c.commit()
	c.want("before another commit", gone)
	c.write(exceptions, "# nobody used it\n"+gone+"\n")
	c.want("meant", "")

	c.commit()
	c.do("tag", "v1")
	c.write("deploy/crd/widgets.yaml", before)
	c.commit()
	c.want("a field more since the tag", "")
	c.write("deploy/crd/widgets.yaml", strings.Replace(before, "color: {type: string}", "color: {type: string, maxLength: 3}", 1))
	c.commit()
	c.write("readme", "third")
	c.commit()
	c.want("narrower since the tag", "since v1, ")
	c.do("rm", "--quiet", "deploy/crd/widgets.yaml")
	c.want("no CRD", "widgets.example.com: the CRD is gone")
}

func TestACloneWithoutHistoryHasNothingToCompareWith(t *testing.T) {
	c := newCheckout(t)
	clone := filepath.Join(t.TempDir(), "clone")
	c.do("clone", "--quiet", "--depth=1", "file://"+string(c.repository), clone)
	var out strings.Builder
	if err := check(t.Context(), repository(clone), "", &out); err != nil || !strings.Contains(out.String(), "nothing to compare with") {
		t.Errorf("%q, %v", out.String(), err)
	}
}
