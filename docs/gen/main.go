// Command gen writes docs/reference/api.md: every field of every kind, from the CRDs in deploy/crd, and the
// condition types, reasons, annotations and labels, from the comments of api/v1alpha1/conditions.go. It decides
// how the reference looks and never what it says: what is wrong there is corrected in the Go types. make
// generate calls it, at the root of the repository, after the CRDs.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
)

const (
	output     = "docs/reference/api.md"
	crds       = "deploy/crd/*.yaml"
	conditions = "api/v1alpha1/conditions.go"
)

func main() {
	root := flag.String("root", ".", "root of the repository")
	flag.Parse()
	if err := run(*root); err != nil {
		slog.Error("the reference was not written", "error", err)
		os.Exit(1)
	}
}

func run(root string) error {
	page, err := reference(root)
	if err != nil {
		return err
	}
	path := filepath.Join(root, output)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, page, 0o644)
}

// reference is the whole page. The same repository gives the same bytes.
func reference(root string) ([]byte, error) {
	kinds, err := readKinds(filepath.Join(root, crds))
	if err != nil {
		return nil, err
	}
	groups, err := readConstants(filepath.Join(root, conditions))
	if err != nil {
		return nil, err
	}
	var page bytes.Buffer
	fmt.Fprint(&page, header)
	for _, k := range kinds {
		k.write(&page)
	}
	fmt.Fprint(&page, "## Conditions, reasons, annotations and labels\n\n")
	for _, g := range groups {
		g.write(&page)
	}
	return append(bytes.TrimRight(page.Bytes(), "\n"), '\n'), nil
}

const header = `# API reference

<!-- Written by docs/gen from deploy/crd and api/v1alpha1. Do not edit; run make generate. -->

Group and version of every kind: ` + "`core.convoy.kumodo.io/v1alpha1`" + `. A field is required when the object that
holds it is given. A rule is a CEL expression that the API server checks at each write; its text is the answer to a
wrong value. What the fields do together is told in the [user guide](../guide.md).

`

// table writes a Markdown table.
func table(w io.Writer, head []string, rows [][]string) {
	line := func(cells []string) {
		fmt.Fprint(w, "|")
		for _, c := range cells {
			fmt.Fprintf(w, " %s |", c)
		}
		fmt.Fprintln(w)
	}
	rule := make([]string, len(head))
	for i := range rule {
		rule[i] = "---"
	}
	line(head)
	line(rule)
	for _, r := range rows {
		line(r)
	}
	fmt.Fprintln(w)
}
