package source

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/dial"
	"kumodo.io/convoy/internal/failure"
	"kumodo.io/convoy/internal/room"
)

// Bundle is the content of a source at one revision. Bundles are shared: nobody may change one.
type Bundle struct {
	// Revision is immutable: "<ref>@sha1:<commit>", where ref is the branch, tag or full name that was found, "sha1:<commit>"
	// when the source names the commit, or "sha256:<digest>" for a ConfigMap. For an artifact of a registry it is
	// "<tag>@sha256:<digest of the manifest>", or the digest alone when the source names it; for a chart of a repository
	// "<version>@sha256:<digest of the archive>".
	Revision string
	// Digest is "sha256:" and the hash over paths and bytes of Files.
	Digest string
	// Path is the folder of the repository that the source names, clean and without slashes at its ends; "" for the
	// whole repository and for a ConfigMap.
	Path string
	// Files are the contents by slash path relative to Path. When the folder is a kustomize overlay, Files also holds the
	// folders of the same repository that it refers to, with paths that begin with "../".
	Files map[string][]byte
}

// Limits bound what a source may cost, and say what it may be. A field that is zero takes its default.
type Limits struct {
	// MaxBytes of a bundle (--source-max-bytes, 64 MiB).
	MaxBytes int64
	// MaxFiles and folders of a bundle (--source-max-files, 10000).
	MaxFiles int
	// MaxDepth of folders below the source's path (--source-max-depth, 32).
	MaxDepth int
	// MaxRepositoryBytes of everything in one commit, artifact or chart, uncompressed (--source-max-repository-bytes, 256 MiB).
	MaxRepositoryBytes int64
	// CacheBytes of bundles and commits that are kept in memory (--source-cache-bytes, 256 MiB).
	CacheBytes int64
	// FetchTimeout of one fetch (--source-fetch-timeout, 60 s).
	FetchTimeout time.Duration
	// AllowFile reads repositories from the disk of this process (--allow-file-sources).
	AllowFile bool
	// PlainHTTPRegistries are spoken to over http, as host or host:port (--plain-http-registries).
	PlainHTTPRegistries []string
	// AllowPlainHTTPCredentials sends credentials over http (--allow-plain-http-credentials).
	AllowPlainHTTPCredentials bool
}

// DefaultLimits are the limits of an operator who sets none.
func DefaultLimits() Limits { return Limits{}.withDefaults() }

func (l Limits) withDefaults() Limits {
	setDefault(&l.MaxBytes, 64<<20)
	setDefault(&l.MaxFiles, 10_000)
	setDefault(&l.MaxDepth, 32)
	setDefault(&l.MaxRepositoryBytes, 256<<20)
	setDefault(&l.CacheBytes, 256<<20)
	setDefault(&l.FetchTimeout, 60*time.Second)
	return l
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// Sources fetches and caches bundles. It is safe for concurrent use; equal fetches at the same time are one.
type Sources struct {
	hub     client.Reader
	limits  Limits
	cache   *cache
	flights *flights
	hosts   hosts
	web     *transports
	git     *gitClient
}

// New makes Sources that read ConfigMaps, Secrets and Clusters through hub, which must not cache them: a revision is only
// as new as what hub answers. Git servers are connected to through dialer.
func New(hub client.Reader, dialer *dial.Dialer, l Limits) *Sources {
	l = l.withDefaults()
	web := newTransports(dialer, l.FetchTimeout)
	return &Sources{
		hub: hub, limits: l, web: web,
		cache:   newCache(l.CacheBytes),
		hosts:   hosts{rooms: map[string]*room.Room{}},
		flights: newFlights(l.FetchTimeout),
		git:     &gitClient{dialer, l, web},
	}
}

// Look returns the newest revision of src without its files, for a Release of the namespace. It costs one look at the
// references of a repository. Its errors are those of Fetch.
func (s *Sources) Look(ctx context.Context, namespace string, src v1alpha1.Source) (revision string, err error) {
	return enter(s, src, true, func() (string, error) { return s.look(ctx, namespace, src) })
}

func (s *Sources) look(ctx context.Context, namespace string, src v1alpha1.Source) (revision string, err error) {
	switch {
	case src.Git != nil:
		return s.lookGit(ctx, namespace, src.Git)
	case src.OCI != nil:
		return s.lookArtifact(ctx, s.oci(namespace, src.OCI))
	case src.Helm != nil:
		return s.lookArtifact(ctx, s.chart(namespace, src.Helm))
	case src.ConfigMap != nil:
		b, err := s.readConfigMap(ctx, namespace, src.ConfigMap.Name)
		if err != nil {
			return "", err
		}
		return b.Revision, nil
	}
	return "", errNoSource()
}

// Fetch returns the newest revision of src, for a Release of the namespace, whose Secrets src may name. For git it costs one
// look at the references when the bundle is cached.
//
// Errors are transient failures, because a source can heal without a change of the Release: SourceNotFound when the
// repository, reference, folder or ConfigMap does not exist, else SourceFailed. A source that can never work is a
// terminal SourceFailed. When too many wait for the same server already, it is a *room.BusyError, and no verdict. When
// ctx ends first, the error is the one of ctx.
func (s *Sources) Fetch(ctx context.Context, namespace string, src v1alpha1.Source) (*Bundle, error) {
	return enter(s, src, true, func() (*Bundle, error) { return s.fetch(ctx, namespace, src) })
}

func (s *Sources) fetch(ctx context.Context, namespace string, src v1alpha1.Source) (*Bundle, error) {
	switch {
	case src.Git != nil:
		return s.fetchGit(ctx, namespace, src.Git)
	case src.OCI != nil:
		return s.fetchArtifact(ctx, s.oci(namespace, src.OCI))
	case src.Helm != nil:
		return s.fetchArtifact(ctx, s.chart(namespace, src.Helm))
	case src.ConfigMap != nil:
		return s.readConfigMap(ctx, namespace, src.ConfigMap.Name)
	}
	return nil, errNoSource()
}

// Open returns exactly the given revision of src, from the cache or fetched again. When it can no longer be had, the
// error is a transient SourceNotFound that says that the source moved on. It may be a *room.BusyError, as of Fetch.
func (s *Sources) Open(ctx context.Context, namespace string, src v1alpha1.Source, revision string) (*Bundle, error) {
	return enter(s, src, false, func() (*Bundle, error) { return s.open(ctx, namespace, src, revision) })
}

func (s *Sources) open(ctx context.Context, namespace string, src v1alpha1.Source, revision string) (*Bundle, error) {
	switch {
	case src.Git != nil:
		return s.openGit(ctx, namespace, src.Git, revision)
	case src.OCI != nil:
		return s.openArtifact(ctx, revision, s.oci(namespace, src.OCI))
	case src.Helm != nil:
		return s.openArtifact(ctx, revision, s.chart(namespace, src.Helm))
	case src.ConfigMap != nil:
		return s.openConfigMap(ctx, namespace, src.ConfigMap.Name, revision)
	}
	return nil, errNoSource()
}

func errNoSource() error {
	return failure.Terminal(v1alpha1.ReasonSourceFailed, nil, "spec.source names none of git, oci, helm and configMap")
}
