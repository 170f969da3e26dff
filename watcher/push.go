package watcher

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"kumodo.io/convoy/api/v1alpha1"
)

// pushKind is who tells of a push: how it proves who it is, and where its body names repositories.
type pushKind struct {
	// headers that hold the proof; without any of them nothing is read.
	headers []string
	proves  func(header http.Header, body, key []byte) bool
	names   func(body []byte) []string
}

// pushKinds by the last part of the path.
var pushKinds = map[string]pushKind{
	"github":  signing("X-Hub-Signature-256"),
	"gitea":   signing("X-Gitea-Signature", "X-Hub-Signature-256"),
	"generic": signing("X-Convoy-Signature"),
	"gitlab": {[]string{"X-Gitlab-Token", standardSignature}, func(header http.Header, body, key []byte) bool {
		token := isKey("X-Gitlab-Token", "")(header, body, key)
		return signedAsStandard(header, body, key, time.Now()) || token
	}, repositoriesOf},
	"oci": {[]string{"Authorization"}, isKey("Authorization", "Bearer "), artifactsOf},
}

func signing(headers ...string) pushKind {
	return pushKind{headers, signedBy(headers...), repositoriesOf}
}

// claims reports whether a request says that it comes from somebody who has the key.
func (k pushKind) claims(header http.Header) bool {
	for _, name := range k.headers {
		if header.Get(name) != "" {
			return true
		}
	}
	return false
}

func sumOf(key []byte, parts ...[]byte) []byte {
	mac := hmac.New(sha256.New, key)
	for _, part := range parts {
		_, _ = mac.Write(part)
	}
	return mac.Sum(nil)
}

// signedBy wants one of the headers to hold the HMAC-SHA256 of the body in hexadecimal digits, with sha256= before it or not.
func signedBy(headers ...string) func(http.Header, []byte, []byte) bool {
	return func(header http.Header, body, key []byte) bool {
		want := sumOf(key, body)
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
		is, want := sha256.Sum256([]byte(got)), sha256.Sum256(key) // equally long, so that the time does not tell the length
		return hmac.Equal(is[:], want[:]) && ok
	}
}

// The headers of the specification Standard Webhooks, which is how GitLab signs with what it calls a signing token.
const (
	standardID        = "Webhook-Id"
	standardTimestamp = "Webhook-Timestamp"
	standardSignature = "Webhook-Signature"
	// standardPrefix stands before the key, which follows in base64.
	standardPrefix = "whsec_"
	// standardAge is how far the clock of the sender may be from ours.
	standardAge = 5 * time.Minute
)

// signedAsStandard wants one of the signatures to be the HMAC-SHA256 of ID, time and body.
func signedAsStandard(header http.Header, body, key []byte, now time.Time) bool {
	if text, prefixed := strings.CutPrefix(string(key), standardPrefix); prefixed {
		if decoded, err := base64.StdEncoding.DecodeString(text); err == nil && len(decoded) >= minWebhookKey {
			key = decoded
		}
	}
	id, timestamp := header.Get(standardID), header.Get(standardTimestamp)
	want := sumOf(key, []byte(id+"."+timestamp+"."), body)
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if age := now.Sub(time.Unix(seconds, 0)); err != nil || id == "" || age.Abs() > standardAge {
		return false
	}
	for signature := range strings.FieldsSeq(header.Get(standardSignature)) {
		text, first := strings.CutPrefix(signature, "v1,")
		if got, err := base64.StdEncoding.DecodeString(text); first && err == nil && hmac.Equal(got, want) {
			return true
		}
	}
	return false
}

// payloadOf is the JSON of a body, which GitHub and Gitea put into a form unless they are told otherwise. Other senders, curl
// for one, call a form what is none.
func payloadOf(header http.Header, body []byte) []byte {
	if kind, _, err := mime.ParseMediaType(header.Get("Content-Type")); err != nil || kind != "application/x-www-form-urlencoded" {
		return body
	}
	form, err := url.ParseQuery(string(body))
	if err != nil || !form.Has("payload") {
		return body
	}
	return []byte(form.Get("payload"))
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

// artifactsOf are the repositories that a registry says something was pushed to. It tells of what is pulled too, and each
// look pulls: to look for that would never end.
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

// scpForm is how ssh is written without a scheme.
var scpForm = regexp.MustCompile(`^(?:[^@:/\s]+@)?([^@:/\s\[\]]+|\[[0-9a-fA-F:.]+\]):(/?[^/].*)$`)

// placeOf is host and path of a repository, however its URL is written; empty when it is none. Two URLs of one repository
// give the same.
func placeOf(text string) string {
	host, path := "", ""
	if u, err := url.Parse(text); err == nil && u.Scheme != "" && u.Host != "" {
		host, path = u.Hostname(), u.Path
	} else if m := scpForm.FindStringSubmatch(text); m != nil {
		host, path = strings.Trim(m[1], "[]"), m[2]
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
