package watcher

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"kumodo.io/convoy/api/v1alpha1"
)

// pushKind is who tells of a push: how it proves who it is, and where its body names repositories.
type pushKind struct {
	proves func(header http.Header, body, key []byte) bool
	names  func(body []byte) []string
}

// pushKinds by the last part of the path.
var pushKinds = map[string]pushKind{
	"github":  {signedBy("X-Hub-Signature-256"), repositoriesOf},
	"gitea":   {signedBy("X-Gitea-Signature", "X-Hub-Signature-256"), repositoriesOf},
	"gitlab":  {isKey("X-Gitlab-Token", ""), repositoriesOf},
	"generic": {signedBy("X-Convoy-Signature"), repositoriesOf},
	"oci":     {isKey("Authorization", "Bearer "), artifactsOf},
}

// signedBy wants one of the headers to hold the HMAC-SHA256 of the body in hexadecimal digits, with sha256= before it or not.
func signedBy(headers ...string) func(http.Header, []byte, []byte) bool {
	return func(header http.Header, body, key []byte) bool {
		mac := hmac.New(sha256.New, key)
		_, _ = mac.Write(body)
		want := mac.Sum(nil)
		for _, name := range headers {
			got, err := hex.DecodeString(strings.TrimPrefix(header.Get(name), "sha256="))
			if err == nil && hmac.Equal(got, want) {
				return true
			}
		}
		return false
	}
}

// isKey wants the header to hold the key itself.
func isKey(name, prefix string) func(http.Header, []byte, []byte) bool {
	return func(header http.Header, _, key []byte) bool {
		got, ok := strings.CutPrefix(header.Get(name), prefix)
		return ok && subtle.ConstantTimeCompare([]byte(got), key) == 1
	}
}

// repositoriesOf are the URLs by which a push names its repository: those of GitHub, Gitea, GitLab and the generic one.
func repositoriesOf(body []byte) []string {
	type repository struct {
		CloneURL   string `json:"clone_url"`
		SSHURL     string `json:"ssh_url"`
		GitURL     string `json:"git_url"`
		HTMLURL    string `json:"html_url"`
		GitHTTPURL string `json:"git_http_url"`
		GitSSHURL  string `json:"git_ssh_url"`
		Homepage   string `json:"homepage"`
	}
	var push struct {
		URL        string     `json:"url"`
		Repository repository `json:"repository"`
		Project    repository `json:"project"`
	}
	if json.Unmarshal(body, &push) != nil {
		return nil
	}
	urls := []string{push.URL}
	for _, r := range []repository{push.Repository, push.Project} {
		urls = append(urls, r.CloneURL, r.SSHURL, r.GitURL, r.HTMLURL, r.GitHTTPURL, r.GitSSHURL, r.Homepage)
	}
	return urls
}

// artifactsOf are the repositories that a registry tells pushes to. It tells of pulls as well, and each look is one: what
// looked for those would look for ever.
func artifactsOf(body []byte) []string {
	var told struct {
		Events []struct {
			Action string `json:"action"`
			Target struct {
				Repository string `json:"repository"`
				URL        string `json:"url"`
			} `json:"target"`
			Request struct {
				Host string `json:"host"`
			} `json:"request"`
		} `json:"events"`
	}
	if json.Unmarshal(body, &told) != nil {
		return nil
	}
	var urls []string
	for _, e := range told.Events {
		if e.Action != "push" {
			continue
		}
		urls = append(urls, "oci://"+e.Request.Host+"/"+e.Target.Repository)
		if u, err := url.Parse(e.Target.URL); err == nil {
			urls = append(urls, "oci://"+u.Host+"/"+e.Target.Repository)
		}
	}
	return urls
}

var scpForm = regexp.MustCompile(`^(?:[^@:/\s]+@)?([^@:/\s]+):([^/].*)$`)

// placeOf is host and path of a repository, however its URL is written; empty when it is none. Two URLs of one repository
// give the same.
func placeOf(text string) string {
	host, path := "", ""
	if u, err := url.Parse(text); err == nil && u.Scheme != "" && u.Host != "" {
		host, path = u.Hostname(), u.Path
	} else if m := scpForm.FindStringSubmatch(text); m != nil {
		host, path = m[1], m[2]
	}
	path = strings.TrimSuffix(strings.Trim(path, "/"), ".git")
	if host == "" || path == "" {
		return ""
	}
	return strings.ToLower(host + "/" + path)
}

// placeOfSource is the place of what a Release takes.
func placeOfSource(src v1alpha1.Source) string {
	switch {
	case src.Git != nil:
		return placeOf(src.Git.URL)
	case src.OCI != nil:
		return placeOf(src.OCI.URL)
	case src.Helm != nil && strings.HasPrefix(src.Helm.URL, "oci://"):
		return placeOf(strings.TrimRight(src.Helm.URL, "/") + "/" + src.Helm.Chart)
	case src.Helm != nil:
		return placeOf(src.Helm.URL)
	}
	return ""
}
