package env

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/distribution/distribution/v3/configuration"
	_ "github.com/distribution/distribution/v3/registry/auth/htpasswd" // the way in
	"github.com/distribution/distribution/v3/registry/handlers"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/inmemory" // where it keeps what is pushed
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/sirupsen/logrus"
	"golang.org/x/crypto/bcrypt"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
)

// Registry is an OCI registry on loopback, over https, for those who log in.
type Registry struct {
	// Host is host:port.
	Host string
	// Authority, as PEM, signed its certificate.
	Authority []byte

	user, password string
	server         *http.Server
	cancel         context.CancelFunc
}

// StartRegistry starts a registry that keeps what is pushed in memory. dir is for its password file.
func StartRegistry(dir, user, password string) (*Registry, error) {
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		return nil, fmt.Errorf("prepare the registry: %w", err)
	}
	passwords := filepath.Join(dir, "htpasswd")
	if err := os.WriteFile(passwords, []byte(user+":"+string(hash)+"\n"), 0o600); err != nil {
		return nil, fmt.Errorf("prepare the registry: %w", err)
	}
	certificate, authority, err := serverCertificate("registry")
	if err != nil {
		return nil, err
	}
	listener, err := listen(0)
	if err != nil {
		return nil, fmt.Errorf("start the registry: %w", err)
	}
	logrus.SetOutput(io.Discard)
	ctx, cancel := context.WithCancel(context.Background())
	app := handlers.NewApp(ctx, &configuration.Configuration{
		Storage: configuration.Storage{"inmemory": nil, "maintenance": configuration.Parameters{"uploadpurging": map[any]any{"enabled": false}}},
		Auth:    configuration.Auth{"htpasswd": configuration.Parameters{"realm": "registry", "path": passwords}},
	})
	r := &Registry{Host: listener.Addr().String(), Authority: authority, user: user, password: password, cancel: cancel}
	r.server = &http.Server{
		Handler: app, ReadHeaderTimeout: 10 * time.Second,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
	}
	go func() { _ = r.server.ServeTLS(listener, "", "") }()
	return r, nil
}

// Close ends the registry.
func (r *Registry) Close() error {
	r.cancel()
	return r.server.Close()
}

// Push makes an artifact of files, as one archive, tags it, and returns the digest of its manifest.
func (r *Registry) Push(ctx context.Context, repository, tag string, files map[string]string) (string, error) {
	archive, err := Archive(files)
	if err != nil {
		return "", err
	}
	return r.push(ctx, repository, tag, "application/vnd.cncf.flux.config.v1+json", "application/vnd.cncf.flux.content.v1.tar+gzip", archive)
}

// PushChart pushes the archive of a chart, as Helm does.
func (r *Registry) PushChart(ctx context.Context, repository, version string, archive []byte) (string, error) {
	return r.push(ctx, repository, version, "application/vnd.cncf.helm.config.v1+json", "application/vnd.cncf.helm.chart.content.v1.tar+gzip", archive)
}

func (r *Registry) push(ctx context.Context, repository, tag, configMedia, media string, data []byte) (string, error) {
	to, err := remote.NewRepository(r.Host + "/" + repository)
	if err != nil {
		return "", fmt.Errorf("push to %s: %w", repository, err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(r.Authority)
	to.Client = &auth.Client{
		Client:     &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}},
		Credential: auth.StaticCredential(r.Host, auth.Credential{Username: r.user, Password: r.password}),
	}
	config := content.NewDescriptorFromBytes(configMedia, []byte("{}"))
	layer := content.NewDescriptorFromBytes(media, data)
	err = errors.Join(to.Push(ctx, config, bytes.NewReader([]byte("{}"))), to.Push(ctx, layer, bytes.NewReader(data)))
	if err != nil {
		return "", fmt.Errorf("push to %s: %w", repository, err)
	}
	m, err := oras.PackManifest(ctx, to, oras.PackManifestVersion1_1, "", oras.PackManifestOptions{ConfigDescriptor: &config, Layers: []ocispec.Descriptor{layer}})
	if err == nil {
		err = to.Tag(ctx, m, tag)
	}
	if err != nil {
		return "", fmt.Errorf("push to %s: %w", repository, err)
	}
	return string(m.Digest), nil
}

// Archive packs files, as artifacts and charts are.
func Archive(files map[string]string) ([]byte, error) {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(files[name]))})
		if err == nil {
			_, err = io.WriteString(w, files[name])
		}
		if err != nil {
			return nil, fmt.Errorf("pack %s: %w", name, err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		return nil, fmt.Errorf("pack files: %w", err)
	}
	return out.Bytes(), nil
}

// serverCertificate issues a certificate for loopback by an authority of its own.
func serverCertificate(name string) (certificate tls.Certificate, authorityPEM []byte, err error) {
	signer, err := newAuthority(name)
	if err != nil {
		return certificate, nil, err
	}
	certPEM, keyPEM, err := signer.issueServer()
	if err != nil {
		return certificate, nil, err
	}
	if certificate, err = tls.X509KeyPair(certPEM, keyPEM); err != nil {
		return certificate, nil, fmt.Errorf("read the certificate of the %s server: %w", name, err)
	}
	authorityPEM, err = signer.pem()
	return certificate, authorityPEM, err
}
