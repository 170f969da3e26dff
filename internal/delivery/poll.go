package delivery

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"kumodo.io/convoy/api/v1alpha1"
)

// Poll is what is asked for new revisions, once for all Releases that share it: a URL, a reference and credentials.
type Poll struct {
	// Namespace of the credentials; empty when there are none, because then all namespaces share it.
	Namespace string `json:"namespace,omitempty"`
	// Source without what does not bear on its revision.
	Source v1alpha1.Source `json:"source"`
}

// PollOf gives the poll that tells a Release of the namespace about its source. There is none for a ConfigMap, which is
// watched.
func PollOf(namespace string, src v1alpha1.Source) (Poll, bool) {
	p := Poll{Source: *src.DeepCopy()}
	p.Source.PollInterval.Duration = 0
	var secret *v1alpha1.SourceSecretRef
	switch {
	case p.Source.Git != nil:
		p.Source.Git.Path, p.Source.Git.Submodules = "", false
		secret = p.Source.Git.SecretRef
	case p.Source.OCI != nil:
		p.Source.OCI.Path = ""
		secret = p.Source.OCI.SecretRef
	case p.Source.Helm != nil:
		secret = p.Source.Helm.SecretRef
	default:
		return Poll{}, false
	}
	if secret != nil {
		p.Namespace = namespace
	}
	return p, true
}

// PollIntervalOf is how often a Release wants its source asked.
func PollIntervalOf(src v1alpha1.Source) time.Duration {
	if src.PollInterval.Duration > 0 {
		return src.PollInterval.Duration
	}
	return v1alpha1.DefaultPollInterval
}

// ID is the same for equal polls only: 32 hexadecimal digits.
func (p Poll) ID() string {
	text, err := json.Marshal(p)
	if err != nil { // structs of texts: it cannot be
		panic(fmt.Sprintf("encode a poll: %v", err))
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// maxPollText keeps summaries of workflows and activities below the 400 bytes that Temporal takes.
const maxPollText = 300

// String is for people: the URL, and what is taken of it, cut.
func (p Poll) String() string {
	text := p.text()
	if len(text) > maxPollText {
		text = strings.ToValidUTF8(text[:maxPollText], "") + "…"
	}
	return text
}

func (p Poll) text() string {
	switch s := p.Source; {
	case s.Git != nil:
		r := s.Git.Ref
		return s.Git.URL + refText("branch", r.Branch, "tag", r.Tag, "tags", r.SemVer, "commit", r.Commit, "ref", r.Name)
	case s.OCI != nil:
		r := s.OCI.Ref
		return s.OCI.URL + refText("tag", r.Tag, "tags", r.SemVer, "digest", r.Digest)
	case s.Helm != nil:
		return s.Helm.URL + refText("chart", s.Helm.Chart) + refText("version", s.Helm.Version)
	}
	return ""
}

// refText is the first of the pairs that has a value.
func refText(pairs ...string) string {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			return ", " + pairs[i] + " " + pairs[i+1]
		}
	}
	return ""
}

// Word is what a look at a source found.
type Word struct {
	// Poll is the ID of the poll that it is about.
	Poll string `json:"poll,omitempty"`
	// Revision is empty when the look failed.
	Revision string `json:"revision,omitempty"`
	// Reason and Message say why the look failed.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// At is when the look began.
	At time.Time `json:"at,omitzero"`
}

// Same reports whether two words say the same, whenever they were said.
func (w Word) Same(other Word) bool {
	w.At, other.At = time.Time{}, time.Time{}
	return w == other
}

// News is what the workflow of a source signals to those of the Releases that use it.
type News struct {
	// UID of the Release.
	UID  string `json:"uid"`
	Word Word   `json:"word"`
}

// Users is what the watcher signals to the workflow of a source.
type Users struct {
	// Count of the Releases that use the source; the workflow ends when there is none.
	Count int `json:"count"`
	// Interval is the shortest of what they ask for.
	Interval time.Duration `json:"interval,omitempty"`
	// Joined: one of them is new, and may have missed what was told.
	Joined bool `json:"joined,omitempty"`
	// Lease is for how long this holds, unless it is said again.
	Lease time.Duration `json:"lease,omitempty"`
}

// SourceInput starts the workflow of a source, or its next run.
type SourceInput struct {
	Poll     Poll          `json:"poll"`
	Interval time.Duration `json:"interval,omitempty"`
	// Next is when to look, Until how long there surely are users.
	Next  time.Time `json:"next,omitzero"`
	Until time.Time `json:"until,omitzero"`
	// Last is what the Releases were told last; Turn counts the looks, Failures those in a row that failed.
	Last     Word  `json:"last,omitzero"`
	Turn     int64 `json:"turn,omitempty"`
	Failures int   `json:"failures,omitempty"`
	// Joined: a Release has joined since the last look.
	Joined bool `json:"joined,omitempty"`
}
