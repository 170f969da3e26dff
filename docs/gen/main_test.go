package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const root = "../.."

func TestTheCommittedReferenceIsCurrent(t *testing.T) {
	want, err := reference(root)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, output))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("docs/reference/api.md is out of date, run make generate (-current +committed):\n%s", diff)
	}
}

func TestTheReferenceIsTheSameEachTime(t *testing.T) {
	first, err := reference(root)
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		again, err := reference(root)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(first), string(again)); diff != "" {
			t.Fatalf("a second run differs:\n%s", diff)
		}
	}
}

func TestAConstantWithoutACommentIsRefused(t *testing.T) {
	for name, source := range map[string]string{
		"block":    "package x\n\nconst (\n\t// A is.\n\tA = \"a\"\n)\n",
		"constant": "package x\n\n// All.\nconst (\n\tA = \"a\"\n)\n",
		"text":     "package x\n\n// All.\nconst (\n\t// A:\n\tA = \"a\"\n)\n",
		"number":   "package x\n\n// All.\nconst (\n\t// A is.\n\tA = iota\n)\n",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.go")
			if err := os.WriteFile(path, []byte(source), 0o600); err != nil {
				t.Fatal(err)
			}
			if got, err := readConstants(path); err == nil {
				t.Errorf("read %v", got)
			}
		})
	}
}

func TestAConstantIsShownByValueMeaningAndName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.go")
	source := "package x\n\n// Reasons of X. More.\nconst (\n\t// ReasonA: first\n\t// line.\n\tReasonA = \"A\"\n\t// ReasonB is second.\n\tReasonB = \"B\"\n)\n"
	if err := os.WriteFile(path, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := readConstants(path)
	if err != nil {
		t.Fatal(err)
	}
	want := []group{{title: "Reasons of X", text: "More.", rows: [][]string{
		{"`A`", "First line.", "`ReasonA`"}, {"`B`", "Is second.", "`ReasonB`"},
	}}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(group{})); diff != "" {
		t.Error(diff)
	}
}
