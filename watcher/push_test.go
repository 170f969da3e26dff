package watcher

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kumodo.io/convoy/api/v1alpha1"
)

func TestAPushMakesTheSourcesLookThatAreTakenFromItsRepository(t *testing.T) {
	app := workflowOf(git("https://git.example.test/team/app.git", "main"))
	next := workflowOf(git("git@git.example.test:Team/App", "next"))
	artifact := workflowOf(v1alpha1.Source{OCI: &v1alpha1.OCISource{URL: "oci://registry.example.test:5000/team/app"}})
	chart := workflowOf(v1alpha1.Source{Helm: &v1alpha1.HelmSource{URL: "oci://registry.example.test:5000/charts", Chart: "app"}})
	cases := map[string]struct {
		path, body string
		want       []string
	}{
		"GitHub":  {"/webhooks/team/github", githubPush, []string{app, next}},
		"Gitea":   {"/webhooks/team/gitea", `{"repository":{"clone_url":"https://git.example.test/team/app.git"}}`, []string{app, next}},
		"GitLab":  {"/webhooks/team/gitlab", `{"object_kind":"push","project":{"git_http_url":"https://git.example.test/team/app.git","git_ssh_url":"git@git.example.test:team/app.git"}}`, []string{app, next}},
		"generic": {"/webhooks/team/generic", `{"url":"ssh://git@git.example.test:2222/team/app"}`, []string{app, next}},
		"a registry": {"/webhooks/team/oci", `{"events":[{"action":"push","target":{"repository":"team/app","url":"https://registry.example.test:5000/v2/team/app/manifests/sha256:0"},"request":{"host":"registry.example.test:5000"}},` +
			`{"action":"push","target":{"repository":"charts/app"},"request":{"host":"registry.example.test:5000"}}]}`, []string{artifact, chart}},
		"JSON that is called a form":           {"/webhooks/team/generic", `{"url":"https://git.example.test/team/app"}`, []string{app, next}},
		"a form":                               {"/webhooks/team/github", "payload=" + url.QueryEscape(githubPush), []string{app, next}},
		"a registry that tells what is pulled": {"/webhooks/team/oci", `{"events":[{"action":"pull","target":{"repository":"team/app"},"request":{"host":"registry.example.test:5000"}}]}`, nil},
		"another repository":                   {"/webhooks/team/generic", `{"url":"https://git.example.test/team/unknown"}`, nil},
		"another host":                         {"/webhooks/team/generic", `{"url":"https://elsewhere.example.test/team/app"}`, nil},
		"no repository":                        {"/webhooks/team/github", `{"zen":"Keep it logically awesome."}`, nil},
		"no JSON":                              {"/webhooks/team/github", `hello`, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := &looks{}
			r, _ := newTestReceiver(t, l)
			w := post(r, tc.path, tc.body, testKey, func(h http.Header) {
				if strings.Contains(name, "form") {
					h.Set("Content-Type", "application/x-www-form-urlencoded")
				}
			})
			if w.Code != http.StatusAccepted || w.Body.String() != fmt.Sprintf("%d sources are looked at\n", len(tc.want)) {
				t.Errorf("answer %d %q", w.Code, w.Body)
			}
			slices.Sort(l.ids)
			slices.Sort(tc.want)
			if !slices.Equal(l.ids, tc.want) {
				t.Errorf("looks %v, want %v", l.ids, tc.want)
			}
		})
	}
	l := &looks{}
	r, _ := newTestReceiver(t, l)
	if w := post(r, "/webhooks/team/github", githubPush, "S3NT1NEL-key-of-before"); w.Code != http.StatusAccepted {
		t.Errorf("the previous key: %d", w.Code)
	}
	l.ended = next
	if w := post(r, "/webhooks/team/github", githubPush, testKey); w.Code != http.StatusAccepted || w.Body.String() != "1 sources are looked at\n" {
		t.Errorf("a workflow that does not run: %d %q", w.Code, w.Body)
	}
	l.fail = errors.New("S3NT1NEL")
	if w := post(r, "/webhooks/team/github", githubPush, testKey); w.Code != http.StatusServiceUnavailable || strings.Contains(w.Body.String(), "S3NT1NEL") {
		t.Errorf("without Temporal: %d %q", w.Code, w.Body)
	}
}

func TestASigningTokenOfGitLabProvesABodyAndItsTime(t *testing.T) {
	raw := []byte("0123456789abcdef0123456789abcdef")
	key := []byte("whsec_" + base64.StdEncoding.EncodeToString(raw))
	now := time.Unix(1_750_000_000, 0)
	body := []byte(`{"object_kind":"push"}`)
	sign := func(key []byte, id string, at time.Time, body string) string {
		return "v1," + base64.StdEncoding.EncodeToString(sumOf(key, []byte(id+"."+strconv.FormatInt(at.Unix(), 10)+"."+body)))
	}
	good := sign(raw, "msg", now, string(body))
	cases := map[string]struct {
		id, signature string
		at            time.Time
		want          bool
	}{
		"signed":                    {"msg", good, now, true},
		"one of several":            {"msg", "v1,AAAA v2," + good[3:] + " " + good, now, true},
		"a clock that is a bit off": {"msg", sign(raw, "msg", now.Add(4*time.Minute), string(body)), now.Add(4 * time.Minute), true},
		"another ID":                {"other", good, now, false},
		"no ID":                     {"", sign(raw, "", now, string(body)), now, false},
		"another time":              {"msg", good, now.Add(time.Second), false},
		"long ago":                  {"msg", sign(raw, "msg", now.Add(-time.Hour), string(body)), now.Add(-time.Hour), false},
		"another body":              {"msg", sign(raw, "msg", now, "{}"), now, false},
		"another key":               {"msg", sign([]byte(testKey), "msg", now, string(body)), now, false},
		"another version":           {"msg", "v2," + good[3:], now, false},
		"no base64":                 {"msg", "v1,!", now, false},
		"nothing":                   {"msg", "", now, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			header := http.Header{}
			header.Set("webhook-id", tc.id)
			header.Set("webhook-timestamp", strconv.FormatInt(tc.at.Unix(), 10))
			header.Set("webhook-signature", tc.signature)
			if got := signedAsStandard(header, body, key, now); got != tc.want {
				t.Errorf("proven = %v, want %v", got, tc.want)
			}
		})
	}
	r, _ := newTestReceiver(t, &looks{})
	at := time.Now()
	w := post(r, "/webhooks/team/gitlab", string(body), testKey, func(h http.Header) {
		h.Del("X-Gitlab-Token")
		h.Set("webhook-id", "msg")
		h.Set("webhook-timestamp", strconv.FormatInt(at.Unix(), 10))
		h.Set("webhook-signature", sign([]byte(testKey), "msg", at, string(body)))
	})
	if w.Code != http.StatusAccepted {
		t.Errorf("answer %d %q", w.Code, w.Body)
	}
}

func TestURLsOfOneRepositoryAreOnePlace(t *testing.T) {
	for text, want := range map[string]string{
		"https://git.example.test/team/app":               "git.example.test/team/app",
		"https://user@Git.example.test:8443/team/app.git": "git.example.test/team/app",
		"ssh://git@git.example.test:2222/team/app.git/":   "git.example.test/team/app",
		"git@git.example.test:team/app.git":               "git.example.test/team/app",
		"git.example.test:/team/app":                      "git.example.test/team/app",
		"git://git.example.test/team/app.git":             "git.example.test/team/app",
		"git@[::1]:team/app":                              "::1/team/app",
		"ssh://git@[::1]:22/team/app":                     "::1/team/app",
		"oci://registry.example.test:5000/team/app":       "registry.example.test/team/app",
		"https://git.example.test":                        "",
		"https://git.example.test/.git":                   "",
		"file:///srv/repository":                          "",
		"://":                                             "",
		"":                                                "",
	} {
		if got := placeOf(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

func FuzzPush(f *testing.F) {
	f.Add("github", "application/x-www-form-urlencoded", []byte("payload="+url.QueryEscape(githubPush)))
	f.Add("gitlab", "application/json", []byte(githubPush))
	f.Add("oci", "", []byte(`{"events":[{"action":"push","target":{"repository":"a","url":"://"}}]}`))
	f.Add("generic", ";", []byte(`{"url":"git@[::1]:a"}`))
	r, _ := newTestReceiver(f, &looks{})
	f.Fuzz(func(t *testing.T, kind, contentType string, body []byte) {
		k, known := pushKinds[kind]
		if !known {
			return
		}
		header := http.Header{"Content-Type": {contentType}, "Webhook-Id": {kind}, "Webhook-Signature": {contentType}}
		for _, name := range k.headers {
			header.Set(name, contentType)
		}
		if k.proves(header, body, r.nobody) {
			t.Error("who has no key proves that he has one")
		}
		if _, err := r.look(t.Context(), "team", k.names(payloadOf(header, body))); err != nil {
			t.Error(err)
		}
	})
}
