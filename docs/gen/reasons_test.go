package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// reasonRow is a row of a table of reasons of conditions: the tables of Events and of failures have fewer columns.
var reasonRow = regexp.MustCompile("(?m)^\\| `(\\w+)` \\|(.*)\\|$")

func TestTheTroubleshootingPageHasEveryReasonOfTheAPIAndNoOther(t *testing.T) {
	groups, err := readConstants(filepath.Join(root, "api", "v1alpha1", "conditions.go"))
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, g := range groups {
		for _, row := range g.rows {
			if strings.HasPrefix(row[2], "`Reason") {
				want = append(want, strings.Trim(row[0], "`"))
			}
		}
	}
	if len(want) == 0 {
		t.Fatal("the API has no reasons")
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "troubleshooting.md"))
	if err != nil {
		t.Fatal(err)
	}
	const columns = 5
	var got []string
	for _, row := range reasonRow.FindAllStringSubmatch(string(page), -1) {
		cells := strings.Split(row[2], "|")
		if len(cells) != columns-1 {
			continue
		}
		got = append(got, row[1])
		for i, column := range map[int]string{0: "condition", 1: "meaning", 3: "what to do"} {
			if strings.TrimSpace(cells[i]) == "" {
				t.Errorf("%s has no %s", row[1], column)
			}
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/troubleshooting.md has other reasons than api/v1alpha1/conditions.go (-API +page):\n%s", diff)
	}
}
