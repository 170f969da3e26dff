package docs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kumodo.io/convoy/dev/env"
)

// pagesOf are the pages for users.
func pagesOf(root string) ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		return nil, err
	}
	pages := []string{"README.md"}
	for _, path := range paths {
		pages = append(pages, "docs/"+filepath.Base(path))
	}
	slices.Sort(pages)
	return pages, nil
}

func TestThePagesDoWhatTheySay(t *testing.T) {
	if testing.Short() {
		t.Skip("it needs the environment")
	}
	paths, err := pagesOf(shared.root)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		p, err := readPage(shared.root, path)
		if err != nil {
			t.Fatal(err)
		}
		if len(p.blocks) == 0 {
			continue
		}
		t.Run(strings.TrimSuffix(filepath.Base(path), ".md"), func(t *testing.T) {
			if p.skip != "" {
				t.Skip("not run: ", p.skip)
			}
			if !p.alone() {
				t.Parallel()
			}
			newReader(t, p).read()
		})
	}
}

// allPages are the pages, and the root of the repository that they are in.
func allPages(t *testing.T) (root string, paths []string) {
	t.Helper()
	root, err := env.Root()
	if err != nil {
		t.Fatal(err)
	}
	paths, err = pagesOf(root)
	if err != nil {
		t.Fatal(err)
	}
	return root, paths
}

// TestFewBlocksAreNotRun keeps the exceptions from growing.
func TestFewBlocksAreNotRun(t *testing.T) {
	root, paths := allPages(t)
	run, skipped := 0, 0
	for _, path := range paths {
		p, err := readPage(root, path)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range p.blocks {
			switch {
			case b.kind == other:
			case b.skip != "" || p.skip != "":
				skipped++
				t.Logf("%s:%d: %s%s", path, b.line, p.skip, b.skip)
			default:
				run++
			}
		}
	}
	if t.Logf("%d blocks are run, %d are not", run, skipped); skipped > run/4 {
		t.Errorf("%d of %d blocks are not run", skipped, skipped+run)
	}
}

// TestLinksLeadSomewhere follows the links between pages, to titles too.
func TestLinksLeadSomewhere(t *testing.T) {
	root, paths := allPages(t)
	for _, path := range append(paths, "ARCHITECTURE.md", "CONTRIBUTING.md") {
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range linksOf(string(text)) {
			if err := follow(root, path, link); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
}
