package source

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"kumodo.io/convoy/api/v1alpha1"
)

// headersAlone is an archive of headers of the kind, of a megabyte each, and of no file that they belong to.
func headersAlone(t *testing.T, kind byte, n int) []byte {
	t.Helper()
	var one bytes.Buffer
	w := tar.NewWriter(&one)
	h := tar.Header{Name: "h", Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": strings.Repeat("c", 1_000_000)}}
	if err := errors.Join(w.WriteHeader(&h), w.Flush()); err != nil {
		t.Fatal(err)
	}
	block := one.Bytes()
	const kindAt, sumAt, sumEnd, end = 156, 148, 156, 512
	block[kindAt] = kind
	copy(block[sumAt:sumEnd], "        ")
	sum := 0
	for _, b := range block[:end] {
		sum += int(b)
	}
	copy(block[sumAt:sumEnd], fmt.Sprintf("%06o\x00 ", sum))
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	for range n {
		if _, err := z.Write(block); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestAnArchiveOfHeadersWithoutFilesEndsAtTheLimit(t *testing.T) {
	for _, kind := range []byte{tar.TypeXGlobalHeader, tar.TypeXHeader, tar.TypeGNULongName} {
		archive := headersAlone(t, kind, 20)
		if _, err := unpackedTexts(archive, "", Limits{MaxRepositoryBytes: 4 << 20}); !errors.Is(err, errRepositoryTooBig) {
			t.Errorf("headers of kind %q: %v", kind, err)
		}
		// Each alone is within the limit, together they are not.
		f, half := newFiles(32<<20), bytes.NewReader(archive)
		first := f.unpack(half)
		half.Reset(archive)
		if second := f.unpack(half); errors.Is(first, errRepositoryTooBig) || !errors.Is(second, errRepositoryTooBig) {
			t.Errorf("headers of kind %q in two archives: %v, %v", kind, first, second)
		}
	}
}

func TestALayerOrManifestThatIsNotWhatItsDigestSaysIsRefused(t *testing.T) {
	for _, part := range []string{"/blobs/", "/manifests/"} {
		s := newOCIServer(t)
		s.push("team/app", "v1", otherConfig, layer(mediaTar, packed(t, plainFile("a.yaml", "a")), nil))
		other := func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, part) {
				return true
			}
			answer := httptest.NewRecorder()
			s.registry.ServeHTTP(answer, r)
			body := bytes.Repeat([]byte("x"), answer.Body.Len()) // of the length that was said
			w.Header().Set("Content-Type", answer.Header().Get("Content-Type"))
			w.Header().Set("Docker-Content-Digest", answer.Header().Get("Docker-Content-Digest"))
			_, _ = w.Write(body)
			return false
		}
		s.permitted.Store(&other)
		b, err := New(nil, anywhere, s.limits()).Fetch(t.Context(), "team", s.source(v1alpha1.OCIRef{Tag: "v1"}))
		if b != nil {
			t.Errorf("%s: files %v", part, texts(b))
		}
		s.wantFailure(err, v1alpha1.ReasonSourceFailed, "artifact URL does not answer as it should")
	}
}

// eavesdropper is a server of layers on another port, which keeps what it is shown.
type eavesdropper struct {
	*httptest.Server
	mu    sync.Mutex
	heard []string
}

func (e *eavesdropper) listen(answer http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		e.mu.Lock()
		e.heard = append(e.heard, r.Header.Get("Authorization")+string(body))
		e.mu.Unlock()
		answer(w, r)
	}
}

// wantDeaf checks that it was asked, and shown nothing.
func (e *eavesdropper) wantDeaf(t *testing.T) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.heard) == 0 || strings.Join(e.heard, "") != "" {
		t.Errorf("where the layer is heard %q in %d requests", e.heard, len(e.heard))
	}
}

func TestALayerElsewhereIsFetchedWithoutTheLoginAndCannotAskForIt(t *testing.T) {
	s := newOCIServer(t)
	s.push("team/app", "v1", otherConfig, layer(mediaTar, packed(t, plainFile("a.yaml", "a")), nil))
	e := &eavesdropper{}
	serve := func(w http.ResponseWriter, r *http.Request) { s.registry.ServeHTTP(w, r) }
	ask := func(scheme string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", scheme+` realm="`+e.URL+`/token",service="x"`)
			w.WriteHeader(http.StatusUnauthorized)
		}
	}
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		fails  string
	}{
		"serves it":           {serve, ""},
		"asks for a login":    {ask("Basic"), "artifact URL refuses the credentials of Secret login"},
		"asks for some token": {ask("Bearer"), "artifact URL refuses the credentials of Secret login"},
	} {
		t.Run(name, func(t *testing.T) {
			e.heard = nil
			e.Server = httptest.NewServer(e.listen(tc.answer))
			defer e.Close()
			redirect := func(w http.ResponseWriter, r *http.Request) bool {
				switch {
				case r.Header.Get("Authorization") == "":
					w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
					w.WriteHeader(http.StatusUnauthorized)
				case strings.Contains(r.URL.Path, "/blobs/"):
					http.Redirect(w, r, e.URL+r.URL.Path, http.StatusTemporaryRedirect)
				default:
					return true
				}
				return false
			}
			s.permitted.Store(&redirect)
			v := &vault{}
			login := base64.StdEncoding.EncodeToString([]byte("robot:S3NT1NEL"))
			v.set("login", map[string]string{dockerConfigKey: fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, s.host, login)})
			limits := s.limits()
			limits.AllowPlainHTTPCredentials = true
			limits.PlainHTTPRegistries = append(limits.PlainHTTPRegistries, strings.TrimPrefix(e.URL, "http://"))
			src := s.source(v1alpha1.OCIRef{Tag: "v1"})
			src.OCI.SecretRef = &v1alpha1.SourceSecretRef{Name: "login"}
			b, err := New(v, anywhere, limits).Fetch(t.Context(), "team", src)
			e.wantDeaf(t)
			if tc.fails != "" {
				s.wantFailure(err, v1alpha1.ReasonSourceFailed, tc.fails)
				return
			}
			if err != nil || string(b.Files["a.yaml"]) != "a" {
				t.Errorf("%+v, %v", b, err)
			}
		})
	}
}
