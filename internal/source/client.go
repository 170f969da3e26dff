package source

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"

	"kumodo.io/convoy/internal/dial"
)

// The most that is read of an answer that is no pack.
const (
	maxRefsBytes  = 64 << 20
	maxErrorBytes = 64 << 10
)

// gitClient speaks git's smart protocol. It uses go-git below its clone and fetch commands: those take their
// HTTP client from a global table, and inflate a pack without a bound.
type gitClient struct {
	http   transport.Transport
	limits Limits
}

// newGitClient makes a client whose connections are all the dialer's, also those to where a redirect leads. go-git follows
// one for the look at the references only, never from https to http, and takes off credentials when the host is another.
func newGitClient(dialer *dial.Dialer, l Limits) *gitClient {
	base := &http.Transport{
		Proxy:                 nil, // never the environment's: what is fetched does not depend on where convoy runs
		DialContext:           dialer.DialContext,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: l.FetchTimeout,
		IdleConnTimeout:       60 * time.Second,
		MaxIdleConnsPerHost:   4,
		ForceAttemptHTTP2:     true,
	}
	c := &http.Client{Transport: boundedTransport{base, l.MaxRepositoryBytes}, Timeout: l.FetchTimeout}
	return &gitClient{http: githttp.NewClient(c), limits: l}
}

// listing is a repository whose references were listed.
type listing struct {
	session transport.UploadPackSession
	refs    *packp.AdvRefs
}

func (g *gitClient) list(ctx context.Context, url string) (*listing, error) {
	ep, err := transport.NewEndpoint(url)
	if err != nil {
		return nil, err
	}
	session, err := g.http.NewUploadPackSession(ep, nil)
	if err != nil {
		return nil, err
	}
	refs, err := session.AdvertisedReferencesContext(ctx)
	if err != nil {
		return nil, err
	}
	return &listing{session, refs}, nil
}

// fetch takes one commit without its history.
func (g *gitClient) fetch(ctx context.Context, r *listing, hash plumbing.Hash) (*commit, error) {
	req := packp.NewUploadPackRequestFromCapabilities(r.refs.Capabilities)
	req.Wants = []plumbing.Hash{hash}
	if r.refs.Capabilities.Supports(capability.Shallow) {
		req.Depth = packp.DepthCommits(1)
		if err := req.Capabilities.Set(capability.Shallow); err != nil {
			return nil, err
		}
	}
	if r.refs.Capabilities.Supports(capability.NoProgress) {
		if err := req.Capabilities.Set(capability.NoProgress); err != nil {
			return nil, err
		}
	}
	res, err := r.session.UploadPack(ctx, req)
	if err != nil {
		if strings.Contains(err.Error(), "not our ref") {
			return nil, errNotServed
		}
		return nil, err
	}
	defer func() { _ = res.Close() }()
	pack, err := io.ReadAll(packOf(res, req.Capabilities))
	if err != nil {
		return nil, err
	}
	return readPack(bytes.NewReader(pack), hash, g.limits.MaxRepositoryBytes)
}

// packOf takes the pack out of the answer's side band, when there is one.
func packOf(res io.Reader, caps *capability.List) io.Reader {
	switch {
	case caps.Supports(capability.Sideband64k):
		return sideband.NewDemuxer(sideband.Sideband64k, res)
	case caps.Supports(capability.Sideband):
		return sideband.NewDemuxer(sideband.Sideband, res)
	}
	return res
}

// boundedTransport ends an answer that is longer than any honest one.
type boundedTransport struct {
	http.RoundTripper
	pack int64
}

func (t boundedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := t.RoundTripper.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	limit := int64(maxErrorBytes)
	switch {
	case res.StatusCode == http.StatusOK && req.Method == http.MethodPost:
		limit = t.pack
	case res.StatusCode == http.StatusOK:
		limit = maxRefsBytes
	}
	res.Body = &boundedBody{ReadCloser: res.Body, left: limit}
	return res, nil
}

type boundedBody struct {
	io.ReadCloser
	left int64
}

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, errRepositoryTooBig
	}
	return n, err
}
