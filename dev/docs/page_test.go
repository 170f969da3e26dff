package docs

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

const example = `# Title

Text.

<!-- run
kubectl create namespace x
-->

1. First:

   ` + "```sh\n   one\n     two\n   ```" + `

<!-- not run: there is no such thing -->

` + "```sh\nthree\n```\n\n```yaml\n# values.yaml\na: 1\n```\n\n```yaml\na: 1\n```\n\n```\n$ four\nfive\n$ six\n```\n\n```\nseven\n```\n"

func TestAPageIsReadInItsOrder(t *testing.T) {
	got, err := parsePage(example)
	if err != nil {
		t.Fatal(err)
	}
	want := page{blocks: []block{
		{kind: hidden, line: 6, text: "kubectl create namespace x\n"},
		{kind: script, line: 12, text: "one\n  two\n"},
		{kind: script, line: 19, text: "three\n", skip: "there is no such thing"},
		{kind: file, line: 23, text: "# values.yaml\na: 1\n", name: "values.yaml"},
		{kind: yaml, line: 28, text: "a: 1\n"},
		{kind: console, line: 32, text: "$ four\nfive\n$ six\n"},
		{kind: other, line: 38, text: "seven\n"},
	}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(page{}, block{})); diff != "" {
		t.Error(diff)
	}
	exchanges := got.blocks[5].exchanges()
	if diff := cmp.Diff([]exchange{{"four", []string{"five"}}, {"six", nil}}, exchanges, cmp.AllowUnexported(exchange{})); diff != "" {
		t.Error(diff)
	}
}

func TestACommentBeforeTheTitleIsAboutThePage(t *testing.T) {
	got, err := parsePage("<!-- not run: it is a list -->\n# Title\n\n```sh\none\n```\n")
	if err != nil {
		t.Fatal(err)
	}
	if got.skip != "it is a list" || got.blocks[0].skip != "" {
		t.Errorf("read %+v", got)
	}
}

func TestAPageThatCannotBeReadIsRefused(t *testing.T) {
	for name, text := range map[string]string{
		"a block without an end":              "```sh\none\n",
		"a comment without an end":            "<!-- run\none\n",
		"an exception before text":            "<!-- not run: why -->\n\ntext\n",
		"an exception at the end of the page": "<!-- not run: why -->\n",
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := parsePage(text); err == nil {
				t.Errorf("read %+v", got)
			}
		})
	}
}

func TestOutputIsTheSameButForWhatDiffersEachTime(t *testing.T) {
	output := "NAME      READY   VERSION   AGE\nstaging   True    v1.37.2   3m12s\n" +
		"Run:  0f0e2d6a-1111-4222-8333-444455556666, next in 12s, at 2026-11-30T11:54:20Z by 16431@vm@\n" +
		"Render:  sha256:27aac2f1e238a2b1 is podinfo/settings\n"
	for shown, want := range map[string]bool{
		"NAME READY VERSION AGE":    true,
		"staging True v1.30.0 40s":  true,
		"staging False v1.30.0 40s": false,
		"True v1.37.2 3m12s":        false,
		"… v1.37.2 3m12s":           true,
		"Run: a38a2141-fce8-4e19-b7a1-368c1d86103a, next in 1m5s, at 2020-01-01T00:00:00Z by 1@a-b@": true,
		"Render: sha256:00000000 is podinfo/settings":                                                true,
		"Render: sha256:00000000… is podinfo/…":                                                      true,
		"Render: sha256:00000000 is podinfo":                                                         false,
	} {
		if err := shows(output, []string{shown}); (err == nil) != want {
			t.Errorf("%q: %v", shown, err)
		}
	}
	if err := shows(output, []string{"…", "staging True v1.37.2 1s", "", "Render: …"}); err != nil {
		t.Error(err)
	}
	if err := shows(output, []string{"Render: …", "staging True v1.37.2 1s"}); err == nil {
		t.Error("lines in another order count as the same")
	}
}

func TestALinkToATitleIsFollowed(t *testing.T) {
	text := "# What `A` does: b, c\n\n```\n# no title\n```\n[one](x.md#y) [two](https://example.com) `[three](z)`\n"
	if diff := cmp.Diff([]string{"what-a-does-b-c"}, anchors(text)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"x.md#y", "z"}, linksOf(text)); diff != "" {
		t.Error(diff)
	}
}
