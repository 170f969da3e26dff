package source

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/yaml"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/failure"
)

// chartServer is a chart repository below /charts/ on loopback.
type chartServer struct {
	*testing.T
	url string

	mu    sync.Mutex
	files map[string][]byte
	index map[string][]entry
	gets  map[string]int
	login string // as BasicAuth gives it, with a colon
	seen  []string
}

func newChartServer(t *testing.T) *chartServer {
	t.Helper()
	s := &chartServer{T: t, files: map[string][]byte{}, index: map[string][]entry{}, gets: map[string]int{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.url = server.URL + "/charts"
	return s
}

func (s *chartServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := strings.TrimPrefix(r.URL.Path, "/charts/")
	s.gets[name]++
	s.seen = append(s.seen, r.Header.Get("Authorization"))
	user, password, _ := r.BasicAuth()
	if s.login != "" && user+":"+password != s.login {
		http.Error(w, "S3NT1NEL", http.StatusUnauthorized)
		return
	}
	content, ok := s.files[name]
	if !ok {
		http.Error(w, "S3NT1NEL", http.StatusNotFound)
		return
	}
	_, _ = w.Write(content)
}

func digestHex(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// publish adds a version of the chart app, whose values say text, and returns the digest of its archive.
func (s *chartServer) publish(version, text string, changes ...func(*entry)) string {
	s.Helper()
	archive := packed(s.T, plainFile("app/Chart.yaml", "name: app\nversion: "+version), plainFile("app/values.yaml", "text: "+text))
	name := "app-" + version + ".tgz"
	e := entry{Version: version, URLs: []string{name}, Digest: digestHex(archive)}
	for _, change := range changes {
		change(&e)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[name] = archive
	kept := s.index["app"][:0]
	for _, old := range s.index["app"] {
		if old.Version != version {
			kept = append(kept, old)
		}
	}
	s.index["app"] = append(kept, e)
	index, err := yaml.Marshal(map[string]any{"apiVersion": "v1", "entries": s.index})
	if err != nil {
		s.Fatal(err)
	}
	s.files["index.yaml"] = index
	return "sha256:" + digestHex(archive)
}

func (s *chartServer) source(version string) v1alpha1.Source {
	return v1alpha1.Source{Helm: &v1alpha1.HelmSource{URL: s.url, Chart: "app", Version: version}}
}

func (s *chartServer) wantFailure(err error, reason, message string) {
	s.Helper()
	wantFailure(s.T, err, s.url, false, reason, message)
}

func TestAChartIsTakenByVersionAndRangeAndAnotherArchiveOfAVersionIsSeen(t *testing.T) {
	s := newChartServer(t)
	one := s.publish("1.0.0", "one")
	two := s.publish("1.2.0+build.7", "two")
	three := s.publish("v2.0.0", "three")
	next := s.publish("3.0.0-rc.1", "next")
	s.publish("2024", "a date")
	sources := New(nil, anywhere, Limits{})
	for asked, want := range map[string]string{
		"1.0.0": "1.0.0@" + one + " one", "1.x": "1.2.0+build.7@" + two + " two", "": "v2.0.0@" + three + " three",
		">=1": "v2.0.0@" + three + " three", "v2.0.0": "v2.0.0@" + three + " three", "3.0.0-rc.1": "3.0.0-rc.1@" + next + " next", ">=3.0.0-0": "3.0.0-rc.1@" + next + " next",
	} {
		looked, err := sources.Look(t.Context(), "team", s.source(asked))
		if err != nil {
			t.Fatal(err)
		}
		b, err := sources.Fetch(t.Context(), "team", s.source(asked))
		if err != nil {
			t.Fatal(err)
		}
		text := strings.TrimPrefix(string(b.Files["values.yaml"]), "text: ")
		if got := b.Revision + " " + text; got != want || looked != b.Revision || b.Files["Chart.yaml"] == nil {
			t.Errorf("version %q: %q, looked %q, want %q", asked, got, looked, want)
		}
	}
	if n := s.gets["app-v2.0.0.tgz"]; n != 1 {
		t.Errorf("an archive was fetched %d times", n)
	}
	again := s.publish("1.0.0", "published again")
	if b, err := sources.Fetch(t.Context(), "team", s.source("1.0.0")); err != nil || b.Revision != "1.0.0@"+again {
		t.Errorf("an archive that was replaced: %+v, %v", b, err)
	}
	_, err := New(nil, anywhere, Limits{}).Open(t.Context(), "team", s.source("1.0.0"), "1.0.0@"+one)
	s.wantFailure(err, v1alpha1.ReasonSourceNotFound, "chart repository URL moved on: the revision is no longer there")
}

func TestAnIndexWithoutDigestsIsGoodEnoughAndOneWithAWrongDigestIsNot(t *testing.T) {
	s := newChartServer(t)
	digest := s.publish("1.0.0", "one", func(e *entry) { e.Digest = "" })
	if b, err := New(nil, anywhere, Limits{}).Fetch(t.Context(), "team", s.source("1.0.0")); err != nil || b.Revision != "1.0.0@"+digest {
		t.Errorf("without a digest: %+v, %v", b, err)
	}
	s.publish("1.0.0", "one", func(e *entry) { e.Digest = strings.Repeat("0", 64) })
	_, err := New(nil, anywhere, Limits{}).Fetch(t.Context(), "team", s.source("1.0.0"))
	s.wantFailure(err, v1alpha1.ReasonSourceFailed, "chart repository URL, chart app of version 1.0.0, is not the archive whose digest the index.yaml has")
}

func TestWhatIsWrongWithAChartRepositoryIsSaidWithoutAWordOfIt(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare         func(*chartServer)
		version         string
		limits          Limits
		reason, message string
	}{
		"no such version": {nil, "9.x", Limits{}, v1alpha1.ReasonSourceNotFound, "chart repository URL has no chart app of version 9.x; what was delivered stays"},
		"no index":        {func(s *chartServer) { delete(s.files, "index.yaml") }, "", Limits{}, v1alpha1.ReasonSourceFailed, "chart repository URL, chart app, has no index.yaml"},
		"a web page":      {func(s *chartServer) { s.files["index.yaml"] = []byte("<html>S3NT1NEL</html>") }, "", Limits{}, v1alpha1.ReasonSourceFailed, "chart repository URL, chart app, has an index.yaml that is none"},
		"aliases": {func(s *chartServer) {
			bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
			for c := 'b'; c < 'k'; c++ {
				bomb += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c,", c-1), 9), ","))
			}
			s.files["index.yaml"] = []byte(bomb + "entries: {app: [*j]}")
		}, "", Limits{}, v1alpha1.ReasonSourceFailed, "chart repository URL, chart app, has an index.yaml that is none"},
		"a login is needed":   {func(s *chartServer) { s.login = "robot:x" }, "", Limits{}, v1alpha1.ReasonSourceFailed, "chart repository URL does not exist, or asks for credentials; name their Secret in spec.source.helm.secretRef"},
		"the archive is gone": {func(s *chartServer) { delete(s.files, "app-1.0.0.tgz") }, "", Limits{}, v1alpha1.ReasonSourceNotFound, "chart repository URL does not exist, or has no chart app; what was delivered stays"},
		"a URL of another kind": {func(s *chartServer) {
			s.publish("1.0.1", "x", func(e *entry) { e.URLs = []string{"file:///etc/passwd"} })
		}, "", Limits{}, v1alpha1.ReasonSourceFailed, "chart repository URL, chart app, has no URL in the index.yaml that can be fetched"},
		"no URL":  {func(s *chartServer) { s.publish("1.0.1", "x", func(e *entry) { e.URLs = nil }) }, "", Limits{}, v1alpha1.ReasonSourceFailed, "chart repository URL, chart app, has no URL in the index.yaml that can be fetched"},
		"too big": {nil, "", Limits{MaxRepositoryBytes: 700}, v1alpha1.ReasonSourceFailed, "chart repository URL, chart app, holds more than 700 bytes; raise --source-max-repository-bytes"},
		"what is no archive": {func(s *chartServer) {
			s.files["app-1.0.0.tgz"] = []byte(strings.Repeat("S3NT1NEL", 100))
			s.publish("1.0.1", "x", func(e *entry) { e.URLs, e.Digest = []string{"app-1.0.0.tgz"}, "" })
		}, "", Limits{}, v1alpha1.ReasonSourceFailed, "chart repository URL, chart app, holds an archive that cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newChartServer(t)
			s.publish("1.0.0", strings.Repeat("one", 100))
			if tc.prepare != nil {
				tc.prepare(s)
			}
			_, err := New(nil, anywhere, tc.limits).Fetch(t.Context(), "team", s.source(tc.version))
			s.wantFailure(err, tc.reason, tc.message)
		})
	}
}

func TestTheLoginOfAChartRepositoryGoesNowhereElse(t *testing.T) {
	s, elsewhere := newChartServer(t), newChartServer(t)
	s.login = "robot:S3NT1NEL"
	digest := elsewhere.publish("1.0.0", "one")
	s.publish("1.0.0", "one", func(e *entry) { e.URLs, e.Digest = []string{elsewhere.url + "/app-1.0.0.tgz"}, digest })
	v := &vault{}
	v.set("login", map[string]string{"username": "robot", "password": "S3NT1NEL"})
	src := s.source("1.0.0")
	src.Helm.SecretRef = &v1alpha1.SourceSecretRef{Name: "login"}
	_, err := New(v, anywhere, Limits{}).Fetch(t.Context(), "team", src)
	s.wantFailure(err, v1alpha1.ReasonSourceFailed, "chart repository URL cannot be fetched: "+errPlainKey.Error())
	if _, err := New(v, anywhere, Limits{AllowPlainHTTPCredentials: true}).Fetch(t.Context(), "team", src); err != nil {
		t.Fatal(err)
	}
	for _, header := range elsewhere.seen {
		if header != "" {
			t.Error("the login went to another server")
		}
	}
}

func TestAChartOfARegistryIsTakenByVersionAndRange(t *testing.T) {
	s := newOCIServer(t)
	archive := func(text string) []byte {
		return packed(t, plainFile("app/Chart.yaml", "name: app"), plainFile("app/values.yaml", text))
	}
	one := s.push("charts/app", "1.0.0", mediaChartConfig, layer(mediaChart, archive("one"), nil))
	two := s.push("charts/app", "1.2.0_build.7", mediaChartConfig, layer(mediaChart, archive("two"), nil))
	s.push("charts/app", "2.0.0", otherConfig, layer(mediaTar, archive("no chart"), nil))
	for version, want := range map[string]string{"1.0.0": "1.0.0@" + one + " one", "1.x": "1.2.0+build.7@" + two + " two", "1.2.0+build.7": "1.2.0+build.7@" + two + " two"} {
		src := v1alpha1.Source{Helm: &v1alpha1.HelmSource{URL: "oci://" + s.host + "/charts/", Chart: "app", Version: version}}
		b, err := New(nil, anywhere, s.limits()).Fetch(t.Context(), "team", src)
		if err != nil {
			t.Fatal(err)
		}
		if got := b.Revision + " " + string(b.Files["values.yaml"]); got != want {
			t.Errorf("version %s: %q, want %q", version, got, want)
		}
	}
	src := v1alpha1.Source{Helm: &v1alpha1.HelmSource{URL: "oci://" + s.host + "/charts", Chart: "app"}}
	_, err := New(nil, anywhere, s.limits()).Fetch(t.Context(), "team", src)
	wantFailure(t, err, "oci://"+s.host+"/charts/app", false, v1alpha1.ReasonSourceFailed,
		"chart URL, version that is no pre-release, holds no chart: that is one folder with a Chart.yaml in it")
}

func TestSourcesOfChartsAndArtifactsThatCanNeverWorkAreTerminal(t *testing.T) {
	for _, src := range []v1alpha1.Source{
		{Helm: &v1alpha1.HelmSource{URL: "https://u:p@example.test/x", Chart: "a"}},
		{Helm: &v1alpha1.HelmSource{URL: "ssh://example.test/x", Chart: "a"}},
		{Helm: &v1alpha1.HelmSource{URL: "https://example.test/x?a=b", Chart: "a"}},
		{Helm: &v1alpha1.HelmSource{URL: "https://example.test/x", Chart: "a", Version: "not a version"}},
		{Helm: &v1alpha1.HelmSource{URL: "oci://example.test/x", Chart: "a:v1"}},
		{OCI: &v1alpha1.OCISource{URL: "https://example.test/x"}},
		{OCI: &v1alpha1.OCISource{URL: "oci://example.test/x:v1"}},
		{OCI: &v1alpha1.OCISource{URL: "oci://example.test/x", Path: "../y"}},
		{OCI: &v1alpha1.OCISource{URL: "oci://example.test/x", Ref: v1alpha1.OCIRef{SemVer: "?"}}},
	} {
		_, err := New(nil, anywhere, Limits{}).Fetch(t.Context(), "team", src)
		wantTerminal(t, err)
	}
}

func FuzzIndex(f *testing.F) {
	f.Add([]byte("entries: {app: [{version: 1.0.0, urls: [app.tgz], digest: abc}]}"))
	f.Add([]byte("entries: {app: [null, {version: {}}]}"))
	f.Add([]byte("a: &a [*a]\nentries: *a"))
	f.Fuzz(func(t *testing.T, index []byte) {
		s := &chartServer{T: t, files: map[string][]byte{"index.yaml": index}, gets: map[string]int{}}
		server := httptest.NewServer(s)
		defer server.Close()
		s.url = server.URL + "/charts"
		if _, err := New(nil, anywhere, Limits{}).Look(t.Context(), "team", s.source("")); err != nil && strings.Contains(err.Error(), "S3NT1NEL") {
			t.Errorf("the far side speaks: %v", err)
		}
	})
}

// wantTerminal checks that a source can never work, as its Release is told.
func wantTerminal(t *testing.T, err error) {
	t.Helper()
	if f, ok := failure.As(err); !ok || !f.Terminal || !strings.HasPrefix(f.Message, "spec.source.") {
		t.Errorf("error %v", err)
	}
}
