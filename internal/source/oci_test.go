package source

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/registry"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	ociremote "oras.land/oras-go/v2/registry/remote"

	"kumodo.io/convoy/api/v1alpha1"
)

const mediaTar = "application/vnd.cncf.flux.content.v1.tar+gzip"

// ociServer is a registry on loopback, over plain http.
type ociServer struct {
	*testing.T
	host      string
	permitted atomic.Pointer[func(http.ResponseWriter, *http.Request) bool]
	blobs     atomic.Int32
	registry  http.Handler
}

func newOCIServer(t *testing.T) *ociServer {
	t.Helper()
	s := &ociServer{T: t, registry: registry.New(registry.Logger(log.New(io.Discard, "", 0)))}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.host = strings.TrimPrefix(server.URL, "http://")
	return s
}

func (s *ociServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
		s.blobs.Add(1)
	}
	if permitted := s.permitted.Load(); permitted != nil && !(*permitted)(w, r) {
		return
	}
	s.registry.ServeHTTP(w, r)
}

func (s *ociServer) limits() Limits { return Limits{PlainHTTPRegistries: []string{s.host}} }

func (s *ociServer) repository(name string) *ociremote.Repository {
	s.Helper()
	r, err := ociremote.NewRepository(s.host + "/" + name)
	if err != nil {
		s.Fatal(err)
	}
	r.PlainHTTP = true
	return r
}

// layer is a layer to push.
func layer(media string, data []byte, annotations map[string]string) pushed {
	d := content.NewDescriptorFromBytes(media, data)
	d.Annotations = annotations
	return pushed{d, data}
}

type pushed struct {
	ocispec.Descriptor
	data []byte
}

// push makes an artifact of layers, tags it, and returns the digest of its manifest.
func (s *ociServer) push(name, tag, configMedia string, layers ...pushed) string {
	s.Helper()
	repository := s.repository(name)
	config := layer(configMedia, []byte("{}"), nil)
	options := oras.PackManifestOptions{ConfigDescriptor: &config.Descriptor}
	for _, l := range append(layers, config) {
		if err := repository.Push(s.Context(), l.Descriptor, bytes.NewReader(l.data)); err != nil {
			s.Fatal(err)
		}
	}
	for _, l := range layers {
		options.Layers = append(options.Layers, l.Descriptor)
	}
	m, err := oras.PackManifest(s.Context(), repository, oras.PackManifestVersion1_1, "application/vnd.example", options)
	if err != nil {
		s.Fatal(err)
	}
	if err := repository.Tag(s.Context(), m, tag); err != nil {
		s.Fatal(err)
	}
	return string(m.Digest)
}

func (s *ociServer) source(ref v1alpha1.OCIRef) v1alpha1.Source {
	return v1alpha1.Source{OCI: &v1alpha1.OCISource{URL: "oci://" + s.host + "/team/app", Ref: ref}}
}

const otherConfig = "application/vnd.cncf.flux.config.v1+json"

func TestAnArtifactIsTakenByTagRangeAndDigestAndAMovedTagIsSeen(t *testing.T) {
	s := newOCIServer(t)
	one := s.push("team/app", "1.0.0", otherConfig, layer(mediaTar, packed(t, plainFile("a.yaml", "one")), nil))
	two := s.push("team/app", "v1.1.0", otherConfig, layer(mediaTar, packed(t, plainFile("a.yaml", "two")), nil))
	s.push("team/app", "2.0.0-rc.1", otherConfig, layer(mediaTar, packed(t, plainFile("a.yaml", "three")), nil))
	s.push("team/app", "2024", otherConfig, layer(mediaTar, packed(t, plainFile("a.yaml", "a date")), nil))
	latest := s.push("team/app", "latest", otherConfig, layer(mediaTar, packed(t, plainFile("a.yaml", "latest")), nil))
	sources := New(nil, anywhere, s.limits())
	for want, ref := range map[string]v1alpha1.OCIRef{
		"1.0.0@" + one + " one": {Tag: "1.0.0"}, "v1.1.0@" + two + " two": {SemVer: ">=1.0.0"}, one + " one": {Digest: one}, "latest@" + latest + " latest": {},
	} {
		looked, err := sources.Look(t.Context(), "team", s.source(ref))
		if err != nil {
			t.Fatal(err)
		}
		b, err := sources.Fetch(t.Context(), "team", s.source(ref))
		if err != nil {
			t.Fatal(err)
		}
		if got := b.Revision + " " + string(b.Files["a.yaml"]); got != want || looked != b.Revision {
			t.Errorf("%+v: %q, looked %q, want %q", ref, got, looked, want)
		}
	}
	before := s.blobs.Load()
	moved := s.push("team/app", "1.0.0", otherConfig, layer(mediaTar, packed(t, plainFile("a.yaml", "moved")), nil))
	b, err := sources.Fetch(t.Context(), "team", s.source(v1alpha1.OCIRef{Tag: "1.0.0"}))
	if err != nil || b.Revision != "1.0.0@"+moved || string(b.Files["a.yaml"]) != "moved" {
		t.Errorf("a moved tag: %+v, %v", b, err)
	}
	for range 3 {
		if _, err := sources.Fetch(t.Context(), "team", s.source(v1alpha1.OCIRef{Tag: "1.0.0"})); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.blobs.Load() - before; n != 1 {
		t.Errorf("%d layers were fetched for one new revision", n)
	}
	other := New(nil, anywhere, s.limits()) // a worker that lacks it
	if b, err := other.Open(t.Context(), "team", s.source(v1alpha1.OCIRef{Tag: "1.0.0"}), "1.0.0@"+one); err != nil || string(b.Files["a.yaml"]) != "one" {
		t.Errorf("an earlier revision: %+v, %v", b, err)
	}
	gone := "1.0.0@sha256:" + strings.Repeat("0", 64)
	_, err = other.Open(t.Context(), "team", s.source(v1alpha1.OCIRef{Tag: "1.0.0"}), gone)
	s.wantFailure(err, v1alpha1.ReasonSourceNotFound, "artifact URL moved on: the revision is no longer there")
}

// wantFailure checks a failure in whose message URL stands for the one of team/app.
func (s *ociServer) wantFailure(err error, reason, message string) {
	s.Helper()
	wantFailure(s.T, err, "oci://"+s.host+"/team/app", false, reason, message)
}

func TestWhatAnArtifactMayHold(t *testing.T) {
	s := newOCIServer(t)
	archive := packed(t, plainFile("base/b.yaml", "b"), plainFile("overlay/kustomization.yaml", "resources: [../base]"))
	title := func(name string) map[string]string { return map[string]string{ocispec.AnnotationTitle: name} }
	chartArchive := packed(t, plainFile("app/Chart.yaml", "name: app"), plainFile("app/values.yaml", "a: 1"))
	cases := map[string]struct {
		config string
		layers []pushed
		path   string
		want   map[string]string
		fails  string
	}{
		"one archive":              {otherConfig, []pushed{layer(mediaTar, archive, nil)}, "overlay", map[string]string{"kustomization.yaml": "resources: [../base]", "../base/b.yaml": "b"}, ""},
		"layers over each other":   {otherConfig, []pushed{layer(mediaTar, archive, nil), layer(mediaTar, packed(t, plainFile("base/b.yaml", "over")), nil)}, "base", map[string]string{"b.yaml": "over"}, ""},
		"files with titles":        {otherConfig, []pushed{layer("application/vnd.oci.image.layer.v1.tar", []byte("x: 1"), title("sub/x.yaml"))}, "", map[string]string{"sub/x.yaml": "x: 1"}, ""},
		"a folder with a title":    {otherConfig, []pushed{layer("application/vnd.oci.image.layer.v1.tar+gzip", archive, map[string]string{ocispec.AnnotationTitle: "base", annotationUnpack: "true"})}, "base", map[string]string{"b.yaml": "b"}, ""},
		"a chart":                  {mediaChartConfig, []pushed{layer(mediaChart, chartArchive, nil)}, "", map[string]string{"Chart.yaml": "name: app", "values.yaml": "a: 1"}, ""},
		"a title that leads out":   {otherConfig, []pushed{layer("text/plain", []byte("x"), title("../../x"))}, "", nil, `artifact URL, tag v1: "../../x" is a path in an archive that leads out of it or names nothing`},
		"anything":                 {otherConfig, []pushed{layer("text/plain", []byte("S3NT1NEL"), nil)}, "", nil, "artifact URL, tag v1, has a layer that is neither an archive nor a file with a title"},
		"an image":                 {ocispec.MediaTypeImageConfig, []pushed{layer(ocispec.MediaTypeImageLayerGzip, archive, nil)}, "", nil, "artifact URL, tag v1, is a container image, not an artifact with manifests"},
		"a chart that is none":     {mediaChartConfig, []pushed{layer(mediaChart, archive, nil)}, "", nil, "artifact URL, tag v1, holds no chart: that is one folder with a Chart.yaml in it"},
		"no archive":               {otherConfig, []pushed{layer(mediaTar, []byte(strings.Repeat("S3NT1NEL", 200)), nil)}, "", nil, "artifact URL, tag v1, holds an archive that cannot be read"},
		"a path that is not there": {otherConfig, []pushed{layer(mediaTar, archive, nil)}, "gone", nil, `artifact URL, tag v1: the path gone does not exist`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s.push("team/app", "v1", tc.config, tc.layers...)
			src := s.source(v1alpha1.OCIRef{Tag: "v1"})
			src.OCI.Path = tc.path
			b, err := New(nil, anywhere, s.limits()).Fetch(t.Context(), "team", src)
			if tc.fails != "" {
				reason := v1alpha1.ReasonSourceFailed
				if tc.path != "" {
					reason = v1alpha1.ReasonSourceNotFound
				}
				s.wantFailure(err, reason, tc.fails)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, texts(b)); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnArtifactThatIsGoneOrTooBigSaysSoAndAnIndexIsRefused(t *testing.T) {
	s := newOCIServer(t)
	digest := s.push("team/app", "v1", otherConfig, layer(mediaTar, packed(t, plainFile("a", strings.Repeat("x", 100_000))), nil))
	index := fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"manifests":[{"mediaType":%q,"digest":%q,"size":1}]}`, ocispec.MediaTypeImageIndex, ocispec.MediaTypeImageManifest, digest)
	d := content.NewDescriptorFromBytes(ocispec.MediaTypeImageIndex, []byte(index))
	if err := s.repository("team/app").PushReference(t.Context(), d, strings.NewReader(index), "many"); err != nil {
		t.Fatal(err)
	}
	small := s.limits()
	small.MaxRepositoryBytes = 50_000
	for _, tc := range []struct {
		ref             v1alpha1.OCIRef
		limits          Limits
		reason, message string
	}{
		{v1alpha1.OCIRef{Tag: "v2"}, s.limits(), v1alpha1.ReasonSourceNotFound, "artifact URL does not exist, or has no tag v2; what was delivered stays"},
		{v1alpha1.OCIRef{SemVer: ">=3"}, s.limits(), v1alpha1.ReasonSourceNotFound, "artifact URL has no tag in the range >=3; what was delivered stays"},
		{v1alpha1.OCIRef{Tag: "many"}, s.limits(), v1alpha1.ReasonSourceFailed, "artifact URL, tag many, is an index of several artifacts; name one of them in ref.digest"},
		{v1alpha1.OCIRef{Tag: "v1"}, small, v1alpha1.ReasonSourceFailed, "artifact URL, tag v1, holds more than 50000 bytes; raise --source-max-repository-bytes"},
		{v1alpha1.OCIRef{Tag: "v1"}, Limits{}, v1alpha1.ReasonSourceFailed, "artifact URL does not answer as it should"}, // https to a plain server
	} {
		_, err := New(nil, anywhere, tc.limits).Fetch(t.Context(), "team", s.source(tc.ref))
		s.wantFailure(err, tc.reason, tc.message)
	}
}

func TestARegistryThatFailsOrHangsGivesAClassAndNoText(t *testing.T) {
	s := newOCIServer(t)
	limits := s.limits()
	limits.FetchTimeout = time.Second
	stop := make(chan struct{})
	defer close(stop)
	for message, answer := range map[string]func(http.ResponseWriter, *http.Request){
		"artifact URL answers with HTTP status 503": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "S3NT1NEL", http.StatusServiceUnavailable) },
		"artifact URL answers with HTTP status 429": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "S3NT1NEL", http.StatusTooManyRequests) },
		"artifact URL does not exist, or asks for credentials; name their Secret in spec.source.oci.secretRef": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
		},
		"artifact URL did not answer within 1s (--source-fetch-timeout)": func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-stop:
			case <-r.Context().Done():
			}
		},
		"artifact URL cannot be fetched: it leads to plain http, which convoy speaks with a registry only when its operator lists it in --plain-http-registries": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://localhost:1/v2/")
			w.WriteHeader(http.StatusTemporaryRedirect)
		},
	} {
		permitted := func(w http.ResponseWriter, r *http.Request) bool {
			answer(w, r)
			return false
		}
		s.permitted.Store(&permitted)
		_, err := New(nil, anywhere, limits).Fetch(t.Context(), "team", s.source(v1alpha1.OCIRef{Tag: "v1"}))
		s.wantFailure(err, v1alpha1.ReasonSourceFailed, message)
	}
}

// loggedIn is a registry over https that asks for a login, on its own or for a token by the same.
func loggedIn(t *testing.T, s *ociServer, byToken bool) (host, authority string) {
	t.Helper()
	var server *httptest.Server
	server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, basic := r.BasicAuth()
		good := basic && user == "robot" && password == "S3NT1NEL"
		switch {
		case r.URL.Path == "/token" && good:
			_, _ = io.WriteString(w, `{"token":"T0K3N"}`)
		case r.URL.Path == "/token":
			w.WriteHeader(http.StatusUnauthorized)
		case byToken && r.Header.Get("Authorization") == "Bearer T0K3N", !byToken && good:
			s.registry.ServeHTTP(w, r)
		case byToken:
			w.Header().Set("WWW-Authenticate", `Bearer realm="`+server.URL+`/token",service="x"`)
			w.WriteHeader(http.StatusUnauthorized)
		default:
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "https://"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
}

func TestARegistryIsOpenedWithADockerConfigurationOrALogin(t *testing.T) {
	s := newOCIServer(t)
	s.push("team/app", "v1", otherConfig, layer(mediaTar, packed(t, plainFile("a.yaml", "private")), nil))
	for _, byToken := range []bool{false, true} {
		host, authority := loggedIn(t, s, byToken)
		config := func(host, login string) string {
			return fmt.Sprintf(`{"auths":{"elsewhere.example.test":{"auth":"eDp5"},%q:{"auth":%q}}}`, host, base64.StdEncoding.EncodeToString([]byte(login)))
		}
		v := &vault{}
		v.set("docker", map[string]string{dockerConfigKey: config(host, "robot:S3NT1NEL"), keyAuthority: authority})
		v.set("plain", map[string]string{"username": "robot", "password": "S3NT1NEL", keyAuthority: authority})
		v.set("wrong", map[string]string{dockerConfigKey: config(host, "robot:S3NT1NEL-wrong"), keyAuthority: authority})
		v.set("elsewhere", map[string]string{dockerConfigKey: config("other.example.test", "robot:S3NT1NEL")})
		v.set("stranger", map[string]string{dockerConfigKey: config(host, "robot:S3NT1NEL")})
		v.set("broken", map[string]string{dockerConfigKey: `{"auths": S3NT1NEL`})
		src := func(secret string) v1alpha1.Source {
			return v1alpha1.Source{OCI: &v1alpha1.OCISource{URL: "oci://" + host + "/team/app", Ref: v1alpha1.OCIRef{Tag: "v1"}, SecretRef: &v1alpha1.SourceSecretRef{Name: secret}}}
		}
		sources := New(v, anywhere, Limits{})
		for _, secret := range []string{"docker", "plain"} {
			if b, err := sources.Fetch(t.Context(), "team", src(secret)); err != nil || string(b.Files["a.yaml"]) != "private" {
				t.Errorf("token %v, Secret %s: %v, %v", byToken, secret, b, err)
			}
		}
		for secret, message := range map[string]string{
			"wrong":     "artifact URL refuses the credentials of Secret wrong",
			"elsewhere": "Secret elsewhere holds no login of the source's registry in key .dockerconfigjson",
			"stranger":  "artifact URL has a certificate that is not trusted",
			"broken":    "Secret broken holds no Docker configuration in key .dockerconfigjson",
			"gone":      "Secret gone does not exist; create it or correct spec.source.oci.secretRef",
		} {
			_, err := sources.Fetch(t.Context(), "team", src(secret))
			wantFailure(t, err, "oci://"+host+"/team/app", false, v1alpha1.ReasonSourceFailed, message)
		}
	}
}

func TestNoLoginGoesToARegistryInTheOpenUnlessThatIsPermitted(t *testing.T) {
	s := newOCIServer(t)
	s.push("team/app", "v1", otherConfig, layer(mediaTar, packed(t, plainFile("a.yaml", "a")), nil))
	var seen atomic.Int32
	permitted := func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") != "" {
			seen.Add(1)
			return true
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
		return false
	}
	s.permitted.Store(&permitted)
	v := &vault{}
	v.set("login", map[string]string{"username": "robot", "password": "S3NT1NEL"})
	src := s.source(v1alpha1.OCIRef{Tag: "v1"})
	src.OCI.SecretRef = &v1alpha1.SourceSecretRef{Name: "login"}
	_, err := New(v, anywhere, s.limits()).Fetch(context.Background(), "team", src)
	s.wantFailure(err, v1alpha1.ReasonSourceFailed, "artifact URL cannot be fetched: "+errPlainKey.Error())
	if seen.Load() != 0 {
		t.Error("the login was sent")
	}
	open := s.limits()
	open.AllowPlainHTTPCredentials = true
	if _, err := New(v, anywhere, open).Fetch(t.Context(), "team", src); err != nil || seen.Load() == 0 {
		t.Errorf("permitted: %v", err)
	}
}
