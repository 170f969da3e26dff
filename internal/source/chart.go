package source

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/Masterminds/semver/v3"
	"sigs.k8s.io/yaml"

	"kumodo.io/convoy/api/v1alpha1"
)

// maxIndexBytes bounds the index of a chart repository: the largest public ones are a third of that.
const maxIndexBytes = 64 << 20

var (
	errNoIndex   = errors.New("has no index.yaml")
	errIndex     = errors.New("has an index.yaml that is none")
	errLongIndex = fmt.Errorf("has an index.yaml of more than %d bytes", maxIndexBytes)
	errDigest    = errors.New("is not the archive whose digest the index.yaml has")
	errChartURL  = errors.New("has no URL in the index.yaml that can be fetched")
)

// chart checks a Helm source.
func (s *Sources) chart(namespace string, src *v1alpha1.HelmSource) func(context.Context) (artifact, error) {
	return func(ctx context.Context) (artifact, error) {
		versions, err := versionsOf(src.Version)
		if err != nil {
			return nil, err
		}
		base := strings.TrimRight(src.URL, "/")
		missing := "chart " + src.Chart
		if src.Version != "" {
			missing += " of version " + src.Version
		}
		if !strings.HasPrefix(src.URL, "oci://") {
			return s.chartRepository(ctx, namespace, src, base, artifactWords{at: "chart repository " + base, missing: missing, field: chartSecret}, versions)
		}
		o := &ociArtifact{address: base + "/" + src.Chart, chart: true, versions: versions}
		o.about = artifactWords{at: "chart " + o.address, missing: "version " + src.Version, field: chartSecret}
		switch _, err := semver.StrictNewVersion(strings.TrimPrefix(src.Version, "v")); {
		case err == nil: // one version: its tag is known
			o.tag, o.versions = src.Version, nil
		case src.Version == "":
			o.about.missing = "version that is no pre-release"
		}
		return o, s.openRegistry(ctx, o, namespace, src.SecretRef, "spec.source.helm.url")
	}
}

const chartSecret = "spec.source.helm.secretRef"

// versionsOf are the versions that a source names: without one, all but pre-releases.
func versionsOf(text string) (*semver.Constraints, error) {
	if text == "" {
		text = "*"
	}
	versions, err := semver.NewConstraint(text)
	if err != nil {
		return nil, invalidSource("spec.source.helm.version is neither a version nor a range of versions")
	}
	return versions, nil
}

// chartRepository is one chart of a repository.
type chartRepository struct {
	client   *http.Client
	flights  *flights
	base     *url.URL
	about    artifactWords
	limits   Limits
	name     string
	exact    string
	versions *semver.Constraints
}

func (s *Sources) chartRepository(
	ctx context.Context, namespace string, src *v1alpha1.HelmSource, base string, about artifactWords, versions *semver.Constraints,
) (artifact, error) {
	a, err := parseAddress(base)
	if err != nil || a.short || a.scheme() != schemeHTTP && a.scheme() != schemeHTTPS {
		return nil, invalidSource("spec.source.helm.url is no https, http or oci URL without credentials, query and fragment")
	}
	if src.SecretRef != nil {
		data, err := s.readSecret(ctx, namespace, src.SecretRef.Name, chartSecret)
		if err != nil {
			return nil, err
		}
		if about.cred, err = webCredential(src.SecretRef.Name, data); err != nil {
			return nil, err
		}
	}
	client := s.httpClient(about.cred, func(string) bool { return a.scheme() == schemeHTTP })
	return &chartRepository{client, s.flights, a.url.JoinPath("/"), about, s.limits, src.Chart, src.Version, versions}, nil
}

func (r *chartRepository) words() artifactWords { return r.about }
func (r *chartRepository) key() string {
	return r.about.cred.key + " " + r.base.String() + " " + r.name
}
func (r *chartRepository) path() string { return "" }

// entry is a version of a chart in an index.
type entry struct {
	Version string   `json:"version"`
	URLs    []string `json:"urls"`
	Digest  string   `json:"digest"`
}

func (r *chartRepository) look(ctx context.Context) (version, error) {
	found, err := r.find(ctx, "")
	if err != nil {
		return version{}, err
	}
	if digest, ok := found.digest(); ok {
		return version{found.Version, digest}, nil
	}
	_, digest, err := r.download(ctx, found)
	return version{found.Version, digest}, err
}

// digest is what the index says of the archive, in the form that revisions have.
func (e entry) digest() (string, bool) {
	hexed := strings.ToLower(strings.TrimPrefix(e.Digest, "sha256:"))
	raw, err := hex.DecodeString(hexed)
	return "sha256:" + hexed, err == nil && len(raw) == sha256.Size
}

// index reads what the repository has, by chart. All charts of it that are asked for at the same time share one answer:
// the indexes of large repositories take a hundred times the memory of a chart.
func (r *chartRepository) index(ctx context.Context) (map[string][]entry, error) {
	return join(ctx, r.flights, "index "+r.about.cred.key+" "+r.base.String(), func(ctx context.Context) (map[string][]entry, error) {
		text, err := r.get(ctx, r.base.JoinPath("index.yaml"), maxIndexBytes)
		switch {
		case isMissing(err):
			return nil, errNoIndex
		case errors.Is(err, errRepositoryTooBig) && r.limits.MaxRepositoryBytes >= maxIndexBytes: // else it is the operator's limit
			return nil, errLongIndex
		case err != nil:
			return nil, err
		}
		var index struct {
			Entries map[string][]entry `json:"entries"`
		}
		if err := yaml.Unmarshal(text, &index); err != nil || index.Entries == nil {
			return nil, errIndex
		}
		return index.Entries, nil
	})
}

// find reads the index, and finds a version in it: the named one, or the newest that the source asks for.
func (r *chartRepository) find(ctx context.Context, named string) (entry, error) {
	index, err := r.index(ctx)
	if err != nil {
		return entry{}, err
	}
	byVersion := map[string]entry{}
	for _, e := range index[r.name] {
		if _, known := byVersion[e.Version]; !known {
			byVersion[e.Version] = e
		}
	}
	for _, exact := range []string{named, r.exact} {
		if e, ok := byVersion[exact]; ok && exact != "" {
			return e, nil
		}
	}
	if named != "" {
		return entry{}, errMoved
	}
	labels := make([]string, 0, len(byVersion))
	for label := range byVersion {
		labels = append(labels, label)
	}
	label, ok := newestVersion(labels, r.versions)
	if !ok {
		return entry{}, errNoVersion
	}
	return byVersion[label], nil
}

func (r *chartRepository) fetch(ctx context.Context, v version) (*unpacked, error) {
	found, err := r.find(ctx, v.label)
	if err != nil {
		return nil, err
	}
	archive, digest, err := r.download(ctx, found)
	switch {
	case err != nil:
		return nil, err
	case digest != v.digest:
		return nil, errMoved
	}
	tree, folder, err := chartTree(bytes.NewReader(archive), r.limits.MaxRepositoryBytes)
	return &unpacked{tree, folder}, err
}

// download fetches the archive of a version, whose digest is checked when the index has one.
func (r *chartRepository) download(ctx context.Context, e entry) (archive []byte, digest string, err error) {
	if len(e.URLs) == 0 {
		return nil, "", errChartURL
	}
	ref, err := url.Parse(e.URLs[0])
	if err != nil {
		return nil, "", errChartURL
	}
	at := r.base.ResolveReference(ref)
	if at.Scheme != schemeHTTPS && at.Scheme != schemeHTTP || at.Host == "" || at.User != nil {
		return nil, "", errChartURL
	}
	if r.base.Scheme == schemeHTTPS && at.Scheme != schemeHTTPS {
		return nil, "", errDown
	}
	archive, err = r.get(ctx, at, r.limits.MaxRepositoryBytes)
	if err != nil {
		return nil, "", err
	}
	sum := sha256.Sum256(archive)
	digest = "sha256:" + hex.EncodeToString(sum[:])
	if said, ok := e.digest(); ok && said != digest {
		return nil, "", errDigest
	}
	return archive, digest, nil
}

// get fetches from the repository or from where its index leads: a login is for the very scheme, host and port of the
// repository.
func (r *chartRepository) get(ctx context.Context, at *url.URL, limit int64) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, errChartURL
	}
	if (address{url: at}).origin() == (address{url: r.base}).origin() {
		switch c := r.about.cred; {
		case c.token != "":
			req.Header.Set("Authorization", "Bearer "+c.token)
		case c.username != "":
			req.SetBasicAuth(c.username, c.password)
		}
	}
	res, err := r.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return nil, statusError(res.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, limit+1))
	if err == nil && int64(len(body)) > limit {
		err = errRepositoryTooBig
	}
	return body, err
}
