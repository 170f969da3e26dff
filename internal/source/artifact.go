package source

import (
	"cmp"
	"context"
	"errors"
	"path"
	"regexp"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/failure"
)

// artifact is where an artifact of a registry, or a chart, is looked for.
type artifact interface {
	// look finds the newest revision.
	look(ctx context.Context) (version, error)
	// fetch gets the files of a revision, and the folder in them that is the whole of the artifact.
	fetch(ctx context.Context, v version) (*unpacked, error)
	// words for messages.
	words() artifactWords
	// key is for the cache and tells credentials apart.
	key() string
	// path of the folder that the source names.
	path() string
}

// artifactWords name an artifact in messages.
type artifactWords struct {
	at      string // "artifact oci://…", "chart repository https://…"
	missing string // behind "has no"
	field   string // what names the Secret
	cred    credential
}

// version is a revision: a digest, and the tag or version that led to it, empty when the source names the digest.
type version struct{ label, digest string }

func (v version) revision() string {
	if v.label == "" {
		return v.digest
	}
	return v.label + "@" + v.digest
}

var artifactRevision = regexp.MustCompile(`^(?:([^@]+)@)?(sha256:[0-9a-f]{64})$`)

// unpacked is the content of an artifact, in the shape of a commit, and the folder of it that counts.
type unpacked struct {
	tree *commit
	root string
}

type (
	unpackedKey       struct{ artifact, digest string }
	artifactBundleKey struct{ artifact, revision, path string }
)

var (
	errNoVersion = errors.New("no such tag or version")
	errMoved     = errors.New("the revision is no longer there")

	errDigestKind = errors.New("has a digest that is not sha256")
)

// lookArtifact gives the newest revision.
func (s *Sources) lookArtifact(ctx context.Context, of func(context.Context) (artifact, error)) (string, error) {
	v, err := withArtifact(ctx, s, of, func(ctx context.Context, a artifact) (version, error) { return s.newestOf(ctx, a) })
	if err != nil {
		return "", err
	}
	return v.revision(), nil
}

func (s *Sources) fetchArtifact(ctx context.Context, of func(context.Context) (artifact, error)) (*Bundle, error) {
	return withArtifact(ctx, s, of, func(ctx context.Context, a artifact) (*Bundle, error) {
		v, err := s.newestOf(ctx, a)
		if err != nil {
			return nil, err
		}
		return s.artifactBundle(ctx, a, v)
	})
}

func (s *Sources) openArtifact(ctx context.Context, revision string, of func(context.Context) (artifact, error)) (*Bundle, error) {
	m := artifactRevision.FindStringSubmatch(revision)
	if m == nil { // of another kind of source, which this one took the place of
		return nil, failure.Transient(v1alpha1.ReasonSourceNotFound, nil, "%q is no revision of this source", revision)
	}
	return withArtifact(ctx, s, of, func(ctx context.Context, a artifact) (*Bundle, error) {
		return s.artifactBundle(ctx, a, version{m[1], m[2]})
	})
}

// withArtifact does work within the time of a fetch, and makes a failure of its error.
func withArtifact[T any](ctx context.Context, s *Sources, of func(context.Context) (artifact, error), work func(context.Context, artifact) (T, error)) (out T, err error) {
	fetchCtx, cancel := context.WithTimeout(ctx, s.limits.FetchTimeout)
	defer cancel()
	a, err := of(fetchCtx)
	if err != nil {
		return out, cmp.Or(ctx.Err(), err)
	}
	out, err = work(fetchCtx, a)
	return out, s.explainArtifact(ctx, a, err)
}

func (s *Sources) newestOf(ctx context.Context, a artifact) (version, error) {
	v, err := join(ctx, s.flights, "look "+a.key()+" "+a.words().missing, a.look)
	if err == nil && !artifactRevision.MatchString(v.revision()) { // which no worker could open later
		return version{}, errDigestKind
	}
	return v, err
}

func (s *Sources) artifactBundle(ctx context.Context, a artifact, v version) (*Bundle, error) {
	key := artifactBundleKey{a.key(), v.revision(), a.path()}
	if b, ok := cached[*Bundle](s.cache, key); ok {
		return b, nil
	}
	content, err := s.unpacked(ctx, a, v)
	if err != nil {
		return nil, err
	}
	collected, err := collect(content.tree, path.Join(content.root, a.path()), s.limits)
	if err != nil {
		return nil, err
	}
	b := &Bundle{Revision: v.revision(), Digest: digestOf(collected), Path: a.path(), Files: collected}
	s.cache.put(key, b, b.size())
	return b, nil
}

func (s *Sources) unpacked(ctx context.Context, a artifact, v version) (*unpacked, error) {
	key := unpackedKey{a.key(), v.digest}
	if content, ok := cached[*unpacked](s.cache, key); ok {
		return content, nil
	}
	return join(ctx, s.flights, "artifact "+a.key()+" "+v.digest, func(ctx context.Context) (*unpacked, error) {
		if content, ok := cached[*unpacked](s.cache, key); ok { // of a flight that landed just now
			return content, nil
		}
		content, err := a.fetch(ctx, v)
		if err != nil {
			return nil, err
		}
		s.cache.put(key, content, content.tree.bytes)
		return content, nil
	})
}

// explainArtifact makes a failure of an error, as explain does for git.
func (s *Sources) explainArtifact(ctx context.Context, a artifact, err error) error {
	if said, err := saidAlready(ctx, err); said {
		return err
	}
	w := a.words()
	var p pathError
	switch {
	case errors.Is(err, errNoVersion):
		return notFound(err, "%s has no %s; what was delivered stays", w.at, w.missing)
	case errors.Is(err, errMoved):
		return notFound(err, "%s moved on: the revision is no longer there", w.at)
	case isMissing(err):
		return notFound(err, "%s does not exist, or has no %s; what was delivered stays", w.at, w.missing)
	case errors.As(err, &p) && p.path == a.path() && (errors.Is(err, errNoPath) || errors.Is(err, errNotFolder)):
		return notFound(err, "%s, %s: the path %s %v", w.at, w.missing, p.path, p.err)
	case errors.As(err, &p):
		return failed(err, "%s, %s: %v", w.at, w.missing, p)
	case errors.Is(err, errRepositoryTooBig):
		return failed(err, "%s, %s, holds more than %d bytes; raise --source-max-repository-bytes", w.at, w.missing, s.limits.MaxRepositoryBytes)
	}
	for _, wrong := range contentErrors {
		if errors.Is(err, wrong) {
			return failed(err, "%s, %s, %v", w.at, w.missing, wrong)
		}
	}
	return failed(err, "%s %s", w.at, s.webClass(err, w.cred, w.field))
}

// contentErrors say themselves what is wrong with an artifact.
var contentErrors = []error{
	errNoArchive, errDeepArchive, errNoChart, errNoIndex, errIndex, errLongIndex, errFullIndex, errElsewhere, errDigest, errChartURL, errDigestKind,
	errArtifactIndex, errImage, errNoManifest, errLayer, errManyLayers, errManyTags,
}
