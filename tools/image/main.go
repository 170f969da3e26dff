// Command image packs one static program into a container image, as a tar archive that docker load, ctr images
// import and kind load image-archive take. It decides what the image holds: the program, the public root
// certificates and a user that is not root. It needs no container runtime, no base image and no registry, and the
// same program gives the same image. make image calls it.
package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is the one that distroless images call nonroot.
const user = "65532"

func main() {
	program := flag.String("program", "", "the program, a static Linux binary")
	tag := flag.String("tag", "", "name of the image, for example convoy:dev")
	arch := flag.String("arch", runtime.GOARCH, "architecture of the program")
	output := flag.String("output", "", "the archive to write")
	flag.Parse()
	if err := pack(*program, *tag, *arch, *output); err != nil {
		slog.Error("the image was not written", "error", err)
		os.Exit(1)
	}
}

func pack(program, tag, arch, output string) error {
	reference, err := name.NewTag(tag)
	if err != nil {
		return err
	}
	binary, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	image, err := build(filepath.Base(program), binary, arch)
	if err != nil {
		return err
	}
	return tarball.WriteToFile(output, reference, image)
}

// build is an image of two layers: what seldom changes, then the program.
func build(program string, binary []byte, arch string) (v1.Image, error) {
	base, err := layer(
		file{"etc/ssl/certs/ca-certificates.crt", 0o644, roots()},
		file{"etc/passwd", 0o644, []byte("nonroot:x:" + user + ":" + user + ":nonroot:/:/sbin/nologin\n")},
	)
	if err != nil {
		return nil, err
	}
	top, err := layer(file{program, 0o755, binary})
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(empty.Image, base, top)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", arch
	config.Config.Entrypoint = []string{path.Join("/", program)}
	config.Config.User = user + ":" + user
	config.Config.WorkingDir = "/"
	return mutate.ConfigFile(image, config)
}

// roots are the certificate authorities that browsers trust, as PEM. One that is trusted under a condition only is
// left out, since a PEM file cannot say so.
func roots() []byte {
	var out bytes.Buffer
	for r := range bundle.Roots() {
		if r.Constraint == nil {
			out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate}))
		}
	}
	return out.Bytes()
}

type file struct {
	path    string
	mode    int64
	content []byte
}

// layer holds files without a time, so that it is the same each time.
func layer(files ...file) (v1.Layer, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, f := range files {
		head := &tar.Header{Typeflag: tar.TypeReg, Name: f.path, Mode: f.mode, Size: int64(len(f.content))}
		if err := w.WriteHeader(head); err != nil {
			return nil, fmt.Errorf("%s: %w", f.path, err)
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, fmt.Errorf("%s: %w", f.path, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(archive.Bytes())), nil
	})
}
