package source

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"

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
	dialer     *dial.Dialer
	limits     Limits
	transports *transports
}

// transport gives the connections that trust the PEM authorities, or the system's when there are none. go-git follows a
// redirect for the look at the references only, never from https to http, and takes off credentials when scheme, host or
// port are others.
func (g *gitClient) transport(authorities []byte) transport.Transport {
	base := boundedTransport{g.transports.trusting(authorities), g.limits.MaxRepositoryBytes}
	return githttp.NewClient(&http.Client{Transport: base, Timeout: g.limits.FetchTimeout})
}

// listing is a repository whose references were listed.
type listing struct {
	refs *packp.AdvRefs
	// fetch takes one commit, without its history where the server can.
	fetch func(ctx context.Context, commit plumbing.Hash) (*commit, error)
}

func (g *gitClient) list(ctx context.Context, r remote) (*listing, error) {
	switch r.address.scheme() {
	case schemeSSH:
		return g.listSSH(ctx, r)
	case schemeFile:
		return g.listLocal(ctx, r.address.url.Path)
	}
	return g.listHTTP(ctx, r)
}

func (g *gitClient) listHTTP(ctx context.Context, r remote) (*listing, error) {
	ep, err := transport.NewEndpoint(r.address.String())
	if err != nil {
		return nil, err
	}
	session, err := g.transport(r.cred.authority).NewUploadPackSession(ep, r.cred.method())
	if err != nil {
		return nil, err
	}
	refs, err := session.AdvertisedReferencesContext(ctx)
	if err != nil {
		return nil, err
	}
	return &listing{refs, func(ctx context.Context, hash plumbing.Hash) (*commit, error) {
		req, err := requestFor(refs, hash)
		if err != nil {
			return nil, err
		}
		res, err := session.UploadPack(ctx, req)
		if err != nil {
			return nil, notServed(err)
		}
		return g.readAnswer(res, req, hash)
	}}, nil
}

// method is how an HTTP server is told the credential; nil when there is nothing to tell.
func (c credential) method() transport.AuthMethod {
	switch {
	case c.token != "":
		return &githttp.TokenAuth{Token: c.token}
	case c.username != "":
		return &githttp.BasicAuth{Username: c.username, Password: c.password}
	}
	return nil
}

// requestFor asks for one commit without its history.
func requestFor(refs *packp.AdvRefs, hash plumbing.Hash) (*packp.UploadPackRequest, error) {
	req := packp.NewUploadPackRequestFromCapabilities(refs.Capabilities)
	req.Wants = []plumbing.Hash{wanted(refs, hash)}
	if refs.Capabilities.Supports(capability.Shallow) {
		req.Depth = packp.DepthCommits(1)
		if err := req.Capabilities.Set(capability.Shallow); err != nil {
			return nil, err
		}
	}
	if refs.Capabilities.Supports(capability.NoProgress) {
		if err := req.Capabilities.Set(capability.NoProgress); err != nil {
			return nil, err
		}
	}
	return req, nil
}

// historyFor asks for all branches and tags with their history.
func historyFor(refs *packp.AdvRefs) *packp.UploadPackRequest {
	req := packp.NewUploadPackRequestFromCapabilities(refs.Capabilities)
	asked := map[plumbing.Hash]bool{}
	for name, hash := range refs.References {
		if (strings.HasPrefix(name, branches) || strings.HasPrefix(name, tags)) && !asked[hash] {
			asked[hash] = true
			req.Wants = append(req.Wants, hash)
		}
	}
	return req
}

// notServed tells a server that refuses a commit from one that fails.
func notServed(err error) error {
	if strings.Contains(err.Error(), "not our ref") {
		return errNotServed
	}
	return err
}

// readAnswer reads the pack of a commit and closes the answer.
func (g *gitClient) readAnswer(res io.ReadCloser, req *packp.UploadPackRequest, hash plumbing.Hash) (*commit, error) {
	defer func() { _ = res.Close() }()
	pack, err := io.ReadAll(packOf(res, req.Capabilities))
	if err != nil {
		return nil, notServed(err)
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
