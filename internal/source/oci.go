package source

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/registry"
	ociremote "oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"

	"kumodo.io/convoy/api/v1alpha1"
)

const (
	maxManifestBytes = 4 << 20
	maxLayers        = 256
	maxTags          = 100_000

	dockerConfigKey = ".dockerconfigjson"

	mediaChartConfig  = "application/vnd.cncf.helm.config.v1+json"
	mediaChart        = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
	mediaDocker       = "application/vnd.docker.distribution.manifest.v2+json"
	mediaDockerList   = "application/vnd.docker.distribution.manifest.list.v2+json"
	mediaDockerConfig = "application/vnd.docker.container.image.v1+json"

	annotationUnpack = "io.deis.oras.content.unpack"
)

var (
	errArtifactIndex = errors.New("is an index of several artifacts; name one of them in ref.digest")
	errImage         = errors.New("is a container image, not an artifact with manifests")
	errNoManifest    = errors.New("is no artifact that convoy knows")
	errLayer         = errors.New("has a layer that is neither an archive nor a file with a title")
	errManyLayers    = fmt.Errorf("has more than %d layers", maxLayers)
	errManyTags      = fmt.Errorf("is in a repository of more than %d tags", maxTags)
)

// ociArtifact is one artifact of a registry.
type ociArtifact struct {
	repository *ociremote.Repository
	limits     Limits
	about      artifactWords
	address    string
	folder     string
	// One of these says which.
	tag      string
	versions *semver.Constraints
	digest   string
	// chart: the artifact must be one, and its tags are versions as Helm writes them.
	chart bool
}

func (o *ociArtifact) words() artifactWords { return o.about }

// key tells a chart from an artifact: what is no chart must not be taken for one because it is known already.
func (o *ociArtifact) key() string {
	return fmt.Sprintf("%s %s %t", o.about.cred.key, o.address, o.chart)
}

func (o *ociArtifact) path() string { return o.folder }

// oci checks an OCI source.
func (s *Sources) oci(namespace string, src *v1alpha1.OCISource) func(context.Context) (artifact, error) {
	return func(ctx context.Context) (artifact, error) {
		dir, ok := folderOf(src.Path)
		if !ok {
			return nil, invalidSource("spec.source.oci.path leaves the artifact; it must be relative and without ..")
		}
		o := &ociArtifact{address: strings.TrimRight(src.URL, "/"), folder: dir, tag: src.Ref.Tag, digest: src.Ref.Digest}
		o.about = artifactWords{at: "artifact " + o.address, field: "spec.source.oci.secretRef"}
		switch r := src.Ref; {
		case r.Digest != "":
			o.about.missing = "digest " + r.Digest
		case r.SemVer != "":
			versions, err := semver.NewConstraint(r.SemVer)
			if err != nil {
				return nil, invalidSource("spec.source.oci.ref.semver is no range of versions")
			}
			o.versions, o.about.missing = versions, "tag in the range "+r.SemVer
		case r.Tag == "":
			o.tag = "latest"
			fallthrough
		default:
			o.about.missing = "tag " + o.tag
		}
		return o, s.openRegistry(ctx, o, namespace, src.SecretRef, "spec.source.oci.url")
	}
}

// openRegistry makes the client of an artifact's repository. urlField is what names the address, for messages.
func (s *Sources) openRegistry(ctx context.Context, o *ociArtifact, namespace string, ref *v1alpha1.SourceSecretRef, urlField string) error {
	name, isOCI := strings.CutPrefix(o.address, "oci://")
	at, err := registry.ParseReference(name)
	if err != nil || !isOCI || at.Reference != "" {
		return invalidSource("%s is no oci://host/repository, without a tag or digest", urlField)
	}
	cred, login, err := s.readRegistryCredential(ctx, namespace, ref, at.Registry, o.about.field)
	if err != nil {
		return err
	}
	o.about.cred, o.limits = cred, s.limits
	plain := func(host string) bool { return slices.Contains(s.limits.PlainHTTPRegistries, host) }
	o.repository = &ociremote.Repository{
		Reference: registry.Reference{Registry: at.Registry, Repository: at.Repository},
		PlainHTTP: plain(at.Registry),
		Client: &auth.Client{
			Client:     s.httpClient(cred, plain),
			Credential: auth.StaticCredential(at.Registry, login),
			// Of this client alone, which lives for one look: what is fetched needs one token, not one for each layer.
			Cache: auth.NewCache(),
			// The guarded dialer decides where connections lead, also to the servers of tokens.
			BlockedRealmPrefixes: []netip.Prefix{},
		},
		MaxMetadataBytes: maxManifestBytes,
	}
	return nil
}

// readRegistryCredential reads the Secret that opens a registry. Of a Docker configuration only the entry of this registry
// is of meaning.
func (s *Sources) readRegistryCredential(ctx context.Context, namespace string, ref *v1alpha1.SourceSecretRef, host, field string) (credential, auth.Credential, error) {
	if ref == nil {
		return credential{}, auth.EmptyCredential, nil
	}
	data, err := s.readSecret(ctx, namespace, ref.Name, field)
	if err != nil {
		return credential{}, auth.EmptyCredential, err
	}
	config, isConfig := data[dockerConfigKey]
	if !isConfig {
		c, err := webCredential(ref.Name, data)
		return c, auth.Credential{Username: c.username, Password: c.password, AccessToken: c.token}, err
	}
	c, err := authorityOf(ref.Name, data)
	if err != nil {
		return credential{}, auth.EmptyCredential, err
	}
	login, err := dockerLogin(ctx, config, host)
	if err != nil {
		return credential{}, auth.EmptyCredential, failed(nil, "Secret %s %v in key %s", ref.Name, err, dockerConfigKey)
	}
	if login == auth.EmptyCredential && len(c.authority) == 0 {
		return credential{}, auth.EmptyCredential, failed(nil, "Secret %s holds no login of the source's registry in key %s", ref.Name, dockerConfigKey)
	}
	c.username, c.password, c.token = login.Username, login.Password, login.AccessToken+login.RefreshToken
	c.key = fingerprint([]byte(login.Username), []byte(login.Password), []byte(login.AccessToken), []byte(login.RefreshToken), c.authority)
	return c, login, nil
}

func (o *ociArtifact) look(ctx context.Context) (version, error) {
	label := o.tag
	switch {
	case o.digest != "":
		found, err := o.repository.Resolve(ctx, o.digest)
		return version{"", string(found.Digest)}, err
	case o.versions != nil:
		var err error
		if label, err = o.newest(ctx); err != nil {
			return version{}, err
		}
	}
	found, err := o.repository.Resolve(ctx, o.tagOf(label))
	return version{label, string(found.Digest)}, err
}

// tagOf is the tag of a version: Helm writes an underscore for the plus that a tag cannot have.
func (o *ociArtifact) tagOf(label string) string {
	if o.chart {
		return strings.ReplaceAll(label, "+", "_")
	}
	return label
}

func (o *ociArtifact) newest(ctx context.Context) (string, error) {
	var labels []string
	err := o.repository.Tags(ctx, "", func(page []string) error {
		if len(labels)+len(page) > maxTags {
			return errManyTags
		}
		for _, tag := range page {
			if o.chart {
				tag = strings.ReplaceAll(tag, "_", "+")
			}
			labels = append(labels, tag)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	label, ok := newestVersion(labels, o.versions)
	if !ok {
		return "", errNoVersion
	}
	return label, nil
}

func (o *ociArtifact) fetch(ctx context.Context, v version) (*unpacked, error) {
	found, err := o.repository.Resolve(ctx, v.digest)
	switch {
	case isMissing(err):
		return nil, errMoved
	case err != nil:
		return nil, err
	case found.MediaType == ocispec.MediaTypeImageIndex || found.MediaType == mediaDockerList:
		return nil, errArtifactIndex
	case found.MediaType != ocispec.MediaTypeImageManifest && found.MediaType != mediaDocker, found.Size > maxManifestBytes:
		return nil, errNoManifest
	}
	text, err := content.FetchAll(ctx, o.repository, found)
	if err != nil {
		return nil, err
	}
	var m ocispec.Manifest
	switch err := json.Unmarshal(text, &m); {
	case err != nil:
		return nil, errNoManifest
	case m.Config.MediaType == ocispec.MediaTypeImageConfig || m.Config.MediaType == mediaDockerConfig:
		return nil, errImage
	case len(m.Layers) > maxLayers:
		return nil, errManyLayers
	case m.Config.MediaType == mediaChartConfig:
		return o.fetchChart(ctx, m.Layers)
	case o.chart:
		return nil, errNoChart
	}
	f := newFiles(o.limits.MaxRepositoryBytes)
	for i := range m.Layers {
		if err := o.addLayer(ctx, f, m.Layers[i]); err != nil {
			return nil, err
		}
	}
	tree, err := f.tree()
	return &unpacked{tree: tree}, err
}

// layer fetches a layer, whose digest is checked.
func (o *ociArtifact) layer(ctx context.Context, l ocispec.Descriptor) ([]byte, error) {
	if l.Size < 0 || l.Size > o.limits.MaxRepositoryBytes {
		return nil, errRepositoryTooBig
	}
	return content.FetchAll(ctx, o.repository, l)
}

// addLayer adds what is in a layer: one file, which has a title, or an archive.
func (o *ociArtifact) addLayer(ctx context.Context, f *files, l ocispec.Descriptor) error {
	title, isFile := l.Annotations[ocispec.AnnotationTitle]
	isFile = isFile && l.Annotations[annotationUnpack] != "true"
	isArchive := strings.HasSuffix(l.MediaType, "tar") || strings.HasSuffix(l.MediaType, "tar+gzip") || strings.HasSuffix(l.MediaType, "tar.gzip")
	if !isFile && !isArchive {
		return errLayer
	}
	data, err := o.layer(ctx, l)
	switch {
	case err != nil:
		return err
	case !isFile:
		return f.unpack(bytes.NewReader(data))
	}
	name, ok := insidePath(title)
	if !ok {
		return pathError{shown(title), errArchivePath}
	}
	return f.add(name, file{filemode.Regular, data})
}

func (o *ociArtifact) fetchChart(ctx context.Context, layers []ocispec.Descriptor) (*unpacked, error) {
	at := slices.IndexFunc(layers, func(l ocispec.Descriptor) bool { return l.MediaType == mediaChart })
	if at < 0 {
		return nil, errNoChart
	}
	data, err := o.layer(ctx, layers[at])
	if err != nil {
		return nil, err
	}
	tree, folder, err := chartTree(bytes.NewReader(data), o.limits.MaxRepositoryBytes)
	return &unpacked{tree, folder}, err
}
