package main

import (
	"bytes"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestEachLineBeginsWithTheTimeAndLongTextsAreAligned(t *testing.T) {
	var b bytes.Buffer
	p := &printer{began: time.Now(), w: &b}
	p.line("1. %s", "Start")
	p.detail("two\nlines\n")
	fmt.Fprint(p, "hub is ready\ntarget is")
	fmt.Fprint(p, " ready\n")
	p.text("plain\n")
	got := regexp.MustCompile(`(?m)^ +\d+\.\d s`).ReplaceAllString(b.String(), "T")
	want := `T  1. Start
T     two
             lines
T     hub is ready
T     target is ready
plain
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
