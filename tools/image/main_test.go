package main

import (
	"archive/tar"
	"crypto/x509"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func packed(t *testing.T, program string) string {
	t.Helper()
	dir := t.TempDir()
	in, out := filepath.Join(dir, "convoy"), filepath.Join(dir, "image.tar")
	if err := os.WriteFile(in, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := pack(in, "convoy:test", "amd64", out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTheImageHoldsTheProgramTheRootsAndAUserThatIsNotRoot(t *testing.T) {
	image, err := tarball.ImageFromPath(packed(t, "the program"), nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	got := []any{config.OS, config.Architecture, config.Config.User, config.Config.Entrypoint}
	if diff := cmp.Diff([]any{"linux", "amd64", "65532:65532", []string{"/convoy"}}, got); diff != "" {
		t.Error(diff)
	}
	files := map[string]string{}
	content := mutate.Extract(image)
	defer content.Close()
	for r := tar.NewReader(content); ; {
		head, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[head.Name] = string(raw)
	}
	want := []string{"convoy", "etc/passwd", "etc/ssl/certs/ca-certificates.crt"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(files))); diff != "" {
		t.Error(diff)
	}
	if files["convoy"] != "the program" {
		t.Errorf("the program is %q", files["convoy"])
	}
	if !x509.NewCertPool().AppendCertsFromPEM([]byte(files["etc/ssl/certs/ca-certificates.crt"])) {
		t.Error("no root certificate")
	}
}

func TestTheSameProgramGivesTheSameImage(t *testing.T) {
	digest := func(path string) string {
		image, err := tarball.ImageFromPath(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		d, err := image.Digest()
		if err != nil {
			t.Fatal(err)
		}
		return d.String()
	}
	first, second, other := digest(packed(t, "a")), digest(packed(t, "a")), digest(packed(t, "b"))
	if first != second {
		t.Errorf("%s, then %s", first, second)
	}
	if first == other {
		t.Error("another program gives the same image")
	}
}
