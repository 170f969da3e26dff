package source

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// packed is an archive of entries, compressed.
func packed(tb testing.TB, entries ...tar.Header) []byte {
	tb.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for _, h := range entries {
		content := h.Uname // where the tests keep it
		h.Uname = ""
		if h.Typeflag == 0 {
			h.Typeflag, h.Size = tar.TypeReg, int64(len(content))
		}
		if err := w.WriteHeader(&h); err != nil {
			tb.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); h.Typeflag == tar.TypeReg && err != nil {
			tb.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

// plainFile is a file in an archive.
func plainFile(name, content string) tar.Header { return tar.Header{Name: name, Uname: content} }

func link(kind byte, name, target string) tar.Header {
	return tar.Header{Name: name, Linkname: target, Typeflag: kind}
}

func unpackedTexts(archive []byte, dir string, l Limits) (map[string]string, error) {
	l = l.withDefaults()
	f := newFiles(l.MaxRepositoryBytes)
	if err := f.unpack(bytes.NewReader(archive)); err != nil {
		return nil, err
	}
	tree, err := f.tree()
	if err != nil {
		return nil, err
	}
	got, err := collect(tree, dir, l)
	return texts(&Bundle{Files: got}), err
}

func TestAnArchiveIsUnpackedWithItsLinks(t *testing.T) {
	archive := packed(t,
		tar.Header{Name: "./", Typeflag: tar.TypeDir}, tar.Header{Name: "app/", Typeflag: tar.TypeDir},
		plainFile("./app/a.yaml", "a"), plainFile("base/b.yaml", "b"), plainFile("app/empty.yaml", ""),
		link(tar.TypeSymlink, "app/linked.yaml", "../base/b.yaml"), link(tar.TypeSymlink, "app/base", "../base"),
		link(tar.TypeLink, "app/hard.yaml", "base/b.yaml"), plainFile("app/kustomization.yaml", "resources: [../base]"),
	)
	got, err := unpackedTexts(archive, "app", Limits{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"a.yaml": "a", "empty.yaml": "", "linked.yaml": "b", "base/b.yaml": "b", "hard.yaml": "b",
		"kustomization.yaml": "resources: [../base]", "../base/b.yaml": "b",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestAnArchiveThatLeadsOutOrHoldsWhatIsNoFileIsRefusedByName(t *testing.T) {
	bomb := func() []byte {
		var out bytes.Buffer
		z := gzip.NewWriter(&out)
		w := tar.NewWriter(z)
		_ = w.WriteHeader(&tar.Header{Name: "zeros", Size: 64 << 20, Typeflag: tar.TypeReg})
		_, _ = w.Write(make([]byte, 64<<20))
		_ = errors.Join(w.Close(), z.Close())
		return out.Bytes()
	}()
	many := make([]tar.Header, 5000)
	for i := range many {
		many[i] = plainFile(strings.Repeat("x", i%50+1)+string(rune('a'+i%26))+strings.Repeat("y", i/100), "")
	}
	small := Limits{MaxRepositoryBytes: 1 << 20}
	cases := map[string]struct {
		archive []byte
		limits  Limits
		want    string
	}{
		"dots":                 {packed(t, plainFile("../../etc/passwd", "x")), Limits{}, "leads out of it"},
		"dots in the middle":   {packed(t, plainFile("a/../../b", "x")), Limits{}, "leads out of it"},
		"absolute":             {packed(t, plainFile("/etc/passwd", "x")), Limits{}, "leads out of it"},
		"a link out":           {packed(t, link(tar.TypeSymlink, "a", "../../etc/passwd")), Limits{}, errLeavesTree.Error()},
		"an absolute link":     {packed(t, link(tar.TypeSymlink, "a", "/etc/passwd")), Limits{}, errLeavesTree.Error()},
		"a loop":               {packed(t, link(tar.TypeSymlink, "a", "b"), link(tar.TypeSymlink, "b", "a")), Limits{}, errLinkLoop.Error()},
		"a hard link out":      {packed(t, link(tar.TypeLink, "a", "../x")), Limits{}, "leads out of it"},
		"a dangling hard link": {packed(t, link(tar.TypeLink, "a", "x")), Limits{}, errDangling.Error()},
		"a device":             {packed(t, tar.Header{Name: "null", Typeflag: tar.TypeChar}), Limits{}, "neither a file"},
		"a pipe":               {packed(t, tar.Header{Name: "pipe", Typeflag: tar.TypeFifo}), Limits{}, "neither a file"},
		"twice":                {packed(t, plainFile("a", "1"), plainFile("./a", "2")), Limits{}, "twice"},
		"a file in a file":     {packed(t, plainFile("a", "1"), plainFile("a/b", "2")), Limits{}, "both a file and a folder"},
		"a link with files":    {packed(t, link(tar.TypeSymlink, "a", "c"), plainFile("a/b", "2"), plainFile("c/d", "3")), Limits{}, "both a file and a folder"},
		"deep":                 {packed(t, plainFile(strings.Repeat("d/", 300)+"f", "x")), Limits{}, "too deep"},
		"a bomb":               {bomb, small, errRepositoryTooBig.Error()},
		"many empty files":     {packed(t, many...), small, "twice|" + errRepositoryTooBig.Error()},
		"cut off":              {packed(t, plainFile("a", strings.Repeat("x", 5000)))[:60], Limits{}, "cannot be read"},
		"no archive":           {[]byte(strings.Repeat("kind: ConfigMap\n", 100)), Limits{}, "cannot be read"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := unpackedTexts(tc.archive, "", tc.limits)
			if err == nil {
				t.Fatalf("unpacked to %v", got)
			}
			for want := range strings.SplitSeq(tc.want, "|") {
				if strings.Contains(err.Error(), want) {
					return
				}
			}
			t.Errorf("error %q, want %q", err, tc.want)
		})
	}
}

func TestAChartIsTheOneFolderOfItsArchive(t *testing.T) {
	for name, tc := range map[string]struct {
		archive []byte
		ok      bool
	}{
		"a chart":       {packed(t, plainFile("app/Chart.yaml", "name: app"), plainFile("app/templates/a.yaml", "a")), true},
		"two folders":   {packed(t, plainFile("app/Chart.yaml", ""), plainFile("other/a", "")), false},
		"no folder":     {packed(t, plainFile("Chart.yaml", "")), false},
		"no Chart.yaml": {packed(t, plainFile("app/values.yaml", "")), false},
		"nothing":       {packed(t), false},
	} {
		_, folder, err := chartTree(bytes.NewReader(tc.archive), 1<<20)
		if ok := err == nil && folder == "app"; ok != tc.ok {
			t.Errorf("%s: folder %q, %v", name, folder, err)
		}
	}
}

func FuzzArchive(f *testing.F) {
	f.Add(packed(f, plainFile("a/b.yaml", "x"), link(tar.TypeSymlink, "c", "a/b.yaml"), link(tar.TypeLink, "d", "a/b.yaml")))
	f.Add(packed(f, plainFile("../a", "x")))
	f.Add([]byte{0x1f, 0x8b})
	f.Fuzz(func(t *testing.T, archive []byte) {
		limits := Limits{MaxRepositoryBytes: 1 << 20, MaxBytes: 1 << 20}
		got, err := unpackedTexts(archive, "", limits)
		if err != nil {
			return
		}
		total := 0
		for name, content := range got {
			total += len(content)
			if _, ok := insidePath(name); !ok {
				t.Errorf("file %q", name)
			}
		}
		if total > 1<<20 {
			t.Errorf("%d bytes came out", total)
		}
	})
}
