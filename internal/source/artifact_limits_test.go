package source

import (
	"archive/tar"
	"bytes"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"kumodo.io/convoy/api/v1alpha1"
)

// heap is what a piece of work allocates in all.
func heap(work func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	work()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestAnArchiveOfLongNamesOrManyFoldersEndsAtTheLimitAndCostsNoMore(t *testing.T) {
	long := make([]tar.Header, 200)
	for i := range long {
		long[i] = plainFile(fmt.Sprintf("%s%d", strings.Repeat("n", 200_000), i), "")
	}
	folders := make([]tar.Header, 1000)
	for i := range folders {
		folders[i] = plainFile(fmt.Sprintf("%d/%sf", i, strings.Repeat("d/", 200)), "")
	}
	for name, tc := range map[string]struct {
		entries []tar.Header
		want    error
	}{"long names": {long, errLongPath}, "folders in folders": {folders, errRepositoryTooBig}} {
		archive := packed(t, tc.entries...)
		var err error
		cost := heap(func() { _, err = unpackedTexts(archive, "", Limits{MaxRepositoryBytes: 1 << 20}) })
		if !errors.Is(err, tc.want) || len(err.Error()) > 500 {
			t.Errorf("%s: %.500v, want %v", name, err, tc.want)
		}
		if cost > 16<<20 {
			t.Errorf("%s: %d bytes for a limit of 1 MiB", name, cost)
		}
	}
}

func TestAChartAndAnArtifactOfTheSameAddressAreToldApartInTheCache(t *testing.T) {
	s := newOCIServer(t)
	s.push("team/app", "1.0.0", otherConfig, layer(mediaTar, packed(t, plainFile("a.yaml", "no chart")), nil))
	sources := New(nil, anywhere, s.limits())
	if _, err := sources.Fetch(t.Context(), "team", s.source(v1alpha1.OCIRef{Tag: "1.0.0"})); err != nil {
		t.Fatal(err)
	}
	src := v1alpha1.Source{Helm: &v1alpha1.HelmSource{URL: "oci://" + s.host + "/team", Chart: "app", Version: "1.0.0"}}
	_, err := sources.Fetch(t.Context(), "team", src)
	s.wantFailure(err, v1alpha1.ReasonSourceFailed,
		"chart URL, version 1.0.0, holds no chart: that is one folder with a Chart.yaml in it")
}

// asking is a registry that gives out its artifacts for a token alone, which it gives anybody.
func (s *ociServer) asking() (bodies *bytes.Buffer, tokens func() int) {
	bodies, n := &bytes.Buffer{}, 0
	permitted := func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.URL.Path == "/token":
			n++
			_, _ = io.Copy(bodies, r.Body)
			_, _ = io.WriteString(w, `{"token":"T0K3N","access_token":"T0K3N"}`)
			return false
		case r.Header.Get("Authorization") == "Bearer T0K3N":
			return true
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+s.host+`/token",service="x"`)
		w.WriteHeader(http.StatusUnauthorized)
		return false
	}
	s.permitted.Store(&permitted)
	return bodies, func() int { return n }
}

func TestAPlainRegistryThatGivesAnybodyATokenIsReadWithOneToken(t *testing.T) {
	s := newOCIServer(t)
	s.push("team/app", "v1", otherConfig, layer(mediaTar, packed(t, plainFile("a.yaml", "a")), nil))
	_, tokens := s.asking()
	sources := New(nil, anywhere, s.limits())
	if _, err := sources.Fetch(t.Context(), "team", s.source(v1alpha1.OCIRef{Tag: "v1"})); err != nil {
		t.Fatal(err)
	}
	if n := tokens(); n != 1 {
		t.Errorf("%d tokens were asked for", n)
	}
}

func TestNoRefreshTokenGoesOutInTheOpenUnlessThatIsPermitted(t *testing.T) {
	s := newOCIServer(t)
	s.push("team/app", "v1", otherConfig, layer(mediaTar, packed(t, plainFile("a.yaml", "a")), nil))
	bodies, _ := s.asking()
	v := &vault{}
	v.set("login", map[string]string{dockerConfigKey: fmt.Sprintf(`{"auths":{%q:{"identitytoken":"S3NT1NEL"}}}`, s.host)})
	src := s.source(v1alpha1.OCIRef{Tag: "v1"})
	src.OCI.SecretRef = &v1alpha1.SourceSecretRef{Name: "login"}
	_, err := New(v, anywhere, s.limits()).Fetch(t.Context(), "team", src)
	s.wantFailure(err, v1alpha1.ReasonSourceFailed, "artifact URL cannot be fetched: "+errPlainKey.Error())
	if strings.Contains(bodies.String(), "S3NT1NEL") {
		t.Error("the refresh token was sent")
	}
	open := s.limits()
	open.AllowPlainHTTPCredentials = true
	if _, err := New(v, anywhere, open).Fetch(t.Context(), "team", src); err != nil || !strings.Contains(bodies.String(), "S3NT1NEL") {
		t.Errorf("permitted: %v", err)
	}
}

func TestNoLoginStepsDownFromARegistryOverHTTPSToAServerOfTokensOverHTTP(t *testing.T) {
	var asked atomic.Int32
	tokens := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(tokens.Close)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", `Bearer realm="`+tokens.URL+`/token",service="x"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(server.Close)
	v := &vault{}
	v.set("login", map[string]string{"username": "robot", "password": "S3NT1NEL", keyAuthority: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))})
	address := "oci://" + strings.TrimPrefix(server.URL, "https://") + "/team/app"
	src := v1alpha1.Source{OCI: &v1alpha1.OCISource{URL: address, SecretRef: &v1alpha1.SourceSecretRef{Name: "login"}}}
	permissive := Limits{AllowPlainHTTPCredentials: true, PlainHTTPRegistries: []string{strings.TrimPrefix(tokens.URL, "http://")}}
	_, err := New(v, anywhere, permissive).Look(t.Context(), "team", src)
	wantFailure(t, err, address, false, v1alpha1.ReasonSourceFailed, "artifact URL does not answer as it should")
	if asked.Load() != 0 {
		t.Error("the server of tokens was asked")
	}
}

func TestOfADockerConfigurationTheEntryOfTheRegistryCountsAlone(t *testing.T) {
	login := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	for name, tc := range map[string]struct{ config, host, want string }{
		"host":                      {`{"auths":{"r.example.test:5000":{"auth":"` + login("u:p") + `"}}}`, "r.example.test:5000", "u:p"},
		"another port":              {`{"auths":{"r.example.test:5001":{"auth":"` + login("u:p") + `"}}}`, "r.example.test:5000", ""},
		"URL":                       {`{"auths":{"https://r.example.test/v1/":{"username":"u","password":"p"}}}`, "r.example.test", "u:p"},
		"the host before a URL":     {`{"auths":{"https://r.example.test":{"auth":"` + login("a:b") + `"},"r.example.test":{"auth":"` + login("u:p") + `"}}}`, "r.example.test", "u:p"},
		"another is broken":         {`{"auths":{"other.example.test":{"auth":"%"},"r.example.test":{"auth":"` + login("u:p") + `"}}}`, "r.example.test", "u:p"},
		"its own is broken":         {`{"auths":{"r.example.test":{"auth":"S3NT1NEL%"}}}`, "r.example.test", "error"},
		"Docker's own":              {`{"auths":{"https://index.docker.io/v1/":{"auth":"` + login("u:p") + `"}}}`, "docker.io", "u:p"},
		"Docker's own, by its name": {`{"auths":{"docker.io":{"auth":"` + login("u:p") + `"}}}`, "docker.io", "u:p"},
		"helpers are never run":     {`{"credsStore":"evil","credHelpers":{"r.example.test":"evil"},"auths":{}}`, "r.example.test", ""},
		"no configuration":          {`S3NT1NEL`, "r.example.test", "error"},
		"entries of another kind":   {`{"auths":["r.example.test"]}`, "r.example.test", "error"},
		"an entry of another kind":  {`{"auths":{"r.example.test":"S3NT1NEL"}}`, "r.example.test", "error"},
		"nothing for this registry": {`{"auths":{}}`, "r.example.test", ""},
		"no entries":                {`{}`, "r.example.test", ""},
	} {
		for range 5 { // the order of a map does not count
			v := &vault{}
			v.set("docker", map[string]string{dockerConfigKey: tc.config})
			c, _, err := New(v, anywhere, Limits{}).readRegistryCredential(t.Context(), "team", &v1alpha1.SourceSecretRef{Name: "docker"}, tc.host, "spec.source.oci.secretRef")
			got := ""
			switch {
			case err != nil && strings.Contains(err.Error(), "S3NT1NEL"):
				t.Errorf("%s: the error tells: %v", name, err)
			case err != nil && !strings.Contains(err.Error(), "holds no login of"):
				got = "error"
			case c.username != "":
				got = c.username + ":" + c.password
			}
			if got != tc.want {
				t.Fatalf("%s: %q, want %q (%v)", name, got, tc.want, err)
			}
		}
	}
}

func TestAnIndexThatIsTooLongIsNotBlamedOnAFlag(t *testing.T) {
	s := newChartServer(t)
	s.files["index.yaml"] = bytes.Repeat([]byte("#\n"), maxIndexBytes/2+1)
	_, err := New(nil, anywhere, Limits{}).Look(t.Context(), "team", s.source(""))
	s.wantFailure(err, v1alpha1.ReasonSourceFailed, "chart repository URL, chart app, has an index.yaml of more than 67108864 bytes")
}

func TestADigestThatRevisionsCannotHoldIsRefusedAtOnce(t *testing.T) {
	s := newOCIServer(t)
	permitted := func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
		w.Header().Set("Content-Length", "2")
		w.Header().Set("Docker-Content-Digest", "sha512:"+strings.Repeat("a", 128))
		return false
	}
	s.permitted.Store(&permitted)
	_, err := New(nil, anywhere, s.limits()).Look(t.Context(), "team", s.source(v1alpha1.OCIRef{Tag: "v1"}))
	s.wantFailure(err, v1alpha1.ReasonSourceFailed, "artifact URL, tag v1, has a digest that is not sha256")
}

func TestChartsOfOneRepositoryThatAreAskedForTogetherShareOneIndex(t *testing.T) {
	release, gets := make(chan struct{}), atomic.Int32{}
	digest := strings.Repeat("ab", 32)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		gets.Add(1)
		<-release
		_, _ = fmt.Fprintf(w, "entries: {a: [{version: 1.0.0, digest: %[1]s}], b: [{version: 2.0.0, digest: %[1]s}]}", digest)
	}))
	t.Cleanup(server.Close)
	sources := New(nil, anywhere, Limits{})
	waiting := func() int {
		sources.flights.mu.Lock()
		defer sources.flights.mu.Unlock()
		for key, fl := range sources.flights.running {
			if strings.HasPrefix(key, "index ") {
				return fl.waiting
			}
		}
		return 0
	}
	var wait sync.WaitGroup
	for chart, want := range map[string]string{"a": "1.0.0@sha256:" + digest, "b": "2.0.0@sha256:" + digest} {
		wait.Go(func() {
			got, err := sources.Look(t.Context(), "team", v1alpha1.Source{Helm: &v1alpha1.HelmSource{URL: server.URL, Chart: chart}})
			if err != nil || got != want {
				t.Errorf("chart %s: %q, %v", chart, got, err)
			}
		})
	}
	eventually(t, "both wait", func() bool { return waiting() == 2 })
	close(release)
	wait.Wait()
	if n := gets.Load(); n != 1 {
		t.Errorf("the index was fetched %d times", n)
	}
}
