package source

import (
	"net/url"
	"strings"
	"testing"
)

func TestAnAddressIsReadAsGitReadsIt(t *testing.T) {
	for text, want := range map[string]struct{ shown, origin, user, hostPort, path string }{
		"https://Example.test/a/b.git/":     {"https://Example.test/a/b.git", "https example.test:443", "git", "", "/a/b.git/"},
		"https://example.test:8443/a":       {"https://example.test:8443/a", "https example.test:8443", "git", "", "/a"},
		"http://[2001:db8::1]/a":            {"http://[2001:db8::1]/a", "http [2001:db8::1]:80", "git", "", "/a"},
		"ssh://example.test/a.git":          {"ssh://example.test/a.git", "ssh git@example.test:22", "git", "example.test:22", "/a.git"},
		"ssh://me@example.test:2222/~/a":    {"ssh://me@example.test:2222/~/a", "ssh me@example.test:2222", "me", "example.test:2222", "~/a"},
		"git@example.test:a/b.git":          {"git@example.test:a/b.git", "ssh git@example.test:22", "git", "example.test:22", "a/b.git"},
		"example.test:/srv/b.git":           {"example.test:/srv/b.git", "ssh git@example.test:22", "git", "example.test:22", "/srv/b.git"},
		"git@[2001:db8::1]:a":               {"git@[2001:db8::1]:a", "ssh git@[2001:db8::1]:22", "git", "[2001:db8::1]:22", "a"},
		"ssh://git@example.test/it's a.git": {"ssh://git@example.test/it%27s%20a.git", "ssh git@example.test:22", "git", "example.test:22", "/it's a.git"},
		"file:///srv/a.git":                 {"file:///srv/a.git", "file :", "git", "", "/srv/a.git"},
	} {
		a, err := parseAddress(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if a.String() != want.shown && !strings.Contains(text, "'") || a.origin() != want.origin || a.user() != want.user || a.remotePath() != want.path {
			t.Errorf("%s is %s, origin %q, user %s, path %q", text, a, a.origin(), a.user(), a.remotePath())
		}
		if want.hostPort != "" && a.hostPort() != want.hostPort {
			t.Errorf("%s leads to %s", text, a.hostPort())
		}
	}
}

func TestWhatIsNoAddressOfARepositoryIsRefused(t *testing.T) {
	for text, want := range map[string]error{
		"": errAddress, "/srv/a.git": errAddress, "./a:b": errAddress, "ftp://example.test/a": errAddress, "ext::sh -c x": errAddress,
		"git://example.test/a": errAddress, "https:///a": errAddress, "ssh://example.test": errAddress, "ssh:///a": errAddress,
		"file://host/a": errAddress, "file:///": errAddress, "git@example.test:": errAddress, "git@example.test:-oProxy=x": errAddress,
		"git@example.test:a b": errAddress, "https://example.test/a\x00": errAddress, "https://example.test/%00": errAddress,
		"https://u@example.test/a": errSecrets, "https://example.test/a?token=x": errSecrets, "https://example.test/a#b": errSecrets,
		"ssh://u:p@example.test/a": errSecrets, "https://example.test/a?": errSecrets,
	} {
		if a, err := parseAddress(text); err != want { //nolint:errorlint // exactly this one, for its text
			t.Errorf("%q gives %v, error %v, want %v", text, a, err, want)
		}
	}
}

func TestTheURLOfASubmoduleMayBeRelative(t *testing.T) {
	for _, tc := range []struct{ of, text, want string }{
		{"https://example.test/org/app.git", "../lib.git", "https://example.test/org/lib.git"},
		{"https://example.test/org/app.git/", "../../other/lib", "https://example.test/other/lib"},
		{"https://example.test/org/app.git", "./lib", "https://example.test/org/app.git/lib"},
		{"git@example.test:org/app.git", "../lib.git", "git@example.test:org/lib.git"},
		{"example.test:/srv/app.git", "../lib.git", "example.test:/srv/lib.git"},
		{"ssh://me@example.test:2222/app", "../lib", "ssh://me@example.test:2222/lib"},
		{"https://example.test/org/app.git", "git@other.test:lib", "git@other.test:lib"},
		{"https://example.test/org/app.git", "../../../lib", ""},
		{"https://example.test/org/app.git", "../../", ""},
		{"git@example.test:app.git", "../../lib", ""},
		{"https://example.test/org/app.git", "/etc", ""},
	} {
		of, err := parseAddress(tc.of)
		if err != nil {
			t.Fatal(err)
		}
		a, err := of.resolve(tc.text)
		if got := shownOr(a, err); got != tc.want {
			t.Errorf("%s of %s is %q (%v), want %q", tc.text, tc.of, got, err, tc.want)
		}
	}
}

func shownOr(a address, err error) string {
	if err != nil {
		return ""
	}
	return a.String()
}

func FuzzAddress(f *testing.F) {
	for _, seed := range []string{
		"https://example.test/a", "git@example.test:a/b.git", "ssh://me@[::1]:22/~/a", "file:///a", "a:b:c", "https://u:p@h/x", "../x", "ssh://h/%2e%2e",
	} {
		f.Add(seed, "../b")
	}
	f.Fuzz(func(t *testing.T, text, relative string) {
		a, err := parseAddress(text)
		if err != nil {
			return
		}
		if _, has := a.url.User.Password(); has {
			t.Errorf("%q holds a password", text)
		}
		if a.scheme() != schemeSSH && a.url.User != nil {
			t.Errorf("%q holds a user", text)
		}
		_, _, _ = a.hostPort(), a.remotePath(), quoted(a.remotePath())
		sub, err := a.resolve(relative)
		if err == nil && (strings.HasPrefix(relative, "../") || strings.HasPrefix(relative, "./")) && sub.origin() != a.origin() {
			t.Errorf("%q of %q leads to another origin, %q", relative, text, sub)
		}
		if err == nil && sub.url == nil {
			t.Errorf("%q of %q is nothing", relative, text)
		}
		if again, err := url.Parse(a.String()); !a.short && (err != nil || again.Host != a.url.Host) {
			t.Errorf("%q is shown as %q, which leads elsewhere: %v", text, a, err)
		}
	})
}
