package source

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"strings"
	"sync"

	"github.com/fluxcd/pkg/ssh/knownhosts"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"golang.org/x/crypto/ssh"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"
)

// maxRounds of the derivation of a key from its passphrase. ssh-keygen makes tens; each costs time that nothing cuts off.
const maxRounds = 256

// What can be wrong with an ssh server or with what opens it. classOf gives these their messages.
var (
	errIdentity    = errors.New("no private key")
	errPassphrase  = errors.New("the passphrase is missing or wrong")
	errRounds      = errors.New("too many rounds")
	errKnownHosts  = errors.New("no known hosts")
	errHostUnknown = errors.New("the host is not known")
	errHostChanged = errors.New("the host shows another key")
	errKeyRefused  = errors.New("the key is refused")
	errDenied      = errors.New("no answer to the command")
)

// listSSH asks for the references on a connection of its own; a later fetch opens another.
func (g *gitClient) listSSH(ctx context.Context, r remote) (*listing, error) {
	s, err := g.openSSH(ctx, r)
	if err != nil {
		return nil, err
	}
	defer s.close()
	refs, err := s.references()
	if err != nil {
		return nil, err
	}
	_, _ = s.stdin.Write(pktline.FlushPkt) // nothing is wanted: the program on the other side ends well
	return &listing{refs, func(ctx context.Context, hash plumbing.Hash) (*commit, error) {
		return g.fetchSSH(ctx, r, hash)
	}}, nil
}

// fetchSSH takes one commit. A server that gives only what it listed is asked for everything, once it refused: what a
// commit or a submodule is pinned to is seldom a tip. The limit of one commit then holds for the whole history.
func (g *gitClient) fetchSSH(ctx context.Context, r remote, hash plumbing.Hash) (*commit, error) {
	c, err := g.askSSH(ctx, r, hash, requestFor)
	if !errors.Is(err, errNotServed) {
		return c, err
	}
	c, err = g.askSSH(ctx, r, hash, func(refs *packp.AdvRefs, _ plumbing.Hash) (*packp.UploadPackRequest, error) {
		if refs.Capabilities.Supports(capability.AllowReachableSHA1InWant) {
			return nil, errNotServed // it gives every commit that it has
		}
		return historyFor(refs), nil
	})
	if errors.Is(err, errRepositoryTooBig) || errors.Is(err, plumbing.ErrObjectNotFound) {
		return nil, errors.Join(errNotServed, err)
	}
	return c, err
}

// askSSH fetches a commit on a connection of its own, with a request that is made when the references are known.
func (g *gitClient) askSSH(ctx context.Context, r remote, hash plumbing.Hash,
	request func(*packp.AdvRefs, plumbing.Hash) (*packp.UploadPackRequest, error),
) (*commit, error) {
	s, err := g.openSSH(ctx, r)
	if err != nil {
		return nil, err
	}
	defer s.close()
	refs, err := s.references()
	if err != nil {
		return nil, err
	}
	req, err := request(refs, hash)
	if err != nil {
		return nil, err
	}
	if err := req.Validate(); err != nil {
		return nil, err
	}
	asked := s.ask(req) // a server that refuses may have hung up by now; what it said before tells why
	res := packp.NewUploadPackResponse(req)
	answer := &boundedBody{io.NopCloser(s.stdout), g.limits.MaxRepositoryBytes}
	if err := errors.Join(res.Decode(answer), asked); err != nil {
		return nil, notServed(err)
	}
	return g.readAnswer(res, req, hash)
}

// sshSession is git-upload-pack at work on the other side.
type sshSession struct {
	client  *ssh.Client
	session *ssh.Session
	stdin   io.WriteCloser
	stdout  io.Reader
	stderr  *firstBytes
	forget  func() bool
}

// openSSH connects and starts the program. The connection is cut when ctx ends, and by nothing earlier: what is told
// then is that the time was over.
func (g *gitClient) openSSH(ctx context.Context, r remote) (*sshSession, error) {
	check, err := newHostCheck(r)
	if err != nil {
		return nil, err
	}
	signer, err := signerOf(r.cred)
	if err != nil {
		return nil, err
	}
	conn, err := g.dialer.DialContext(ctx, "tcp", r.address.hostPort())
	if err != nil {
		return nil, err
	}
	forget := context.AfterFunc(ctx, func() { _ = conn.Close() })
	cut := func(err error) (*sshSession, error) {
		forget()
		_ = conn.Close()
		return nil, err
	}
	c, channels, requests, err := ssh.NewClientConn(conn, r.address.hostPort(), &ssh.ClientConfig{
		User: r.address.user(), Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)},
		HostKeyCallback: check.callback, HostKeyAlgorithms: check.algorithms(r.address.hostPort()),
	})
	if err != nil {
		return cut(check.explain(err))
	}
	s := &sshSession{client: ssh.NewClient(c, channels, requests), stderr: &firstBytes{}, forget: forget}
	if err := s.start(r.address.remotePath()); err != nil {
		return cut(errors.Join(errDenied, err))
	}
	return s, nil
}

func (s *sshSession) start(path string) (err error) {
	if s.session, err = s.client.NewSession(); err != nil {
		return err
	}
	if s.stdin, err = s.session.StdinPipe(); err != nil {
		return err
	}
	if s.stdout, err = s.session.StdoutPipe(); err != nil {
		return err
	}
	s.session.Stderr = s.stderr
	return s.session.Start("git-upload-pack " + quoted(path))
}

// quoted is a word as git writes it for the shell of the other side.
func quoted(word string) string {
	return "'" + strings.NewReplacer("'", `'\''`, "!", `'\!'`).Replace(word) + "'"
}

func (s *sshSession) close() {
	s.forget()
	_ = s.client.Close()
}

// references reads what the program says first.
func (s *sshSession) references() (*packp.AdvRefs, error) {
	refs := packp.NewAdvRefs()
	// The decoder may read ahead of what it needs, but the program says nothing more until it is asked.
	err := refs.Decode(&boundedBody{io.NopCloser(s.stdout), maxRefsBytes})
	var line *pktline.ErrorLine
	var unexpected *packp.ErrUnexpectedData
	switch {
	case err == nil && !refs.IsEmpty():
		transport.FilterUnsupportedCapabilities(refs.Capabilities)
		return refs, nil
	case err == nil, errors.Is(err, packp.ErrEmptyAdvRefs):
		return nil, transport.ErrEmptyRemoteRepository
	case errors.As(err, &line) && saysMissing(line.Text), errors.As(err, &unexpected) && saysMissing(string(unexpected.Data)):
		return nil, errors.Join(transport.ErrRepositoryNotFound, err)
	case errors.Is(err, packp.ErrEmptyInput):
		_ = s.session.Wait() // until all that it says has come
		if saysMissing(s.stderr.String()) {
			return nil, errors.Join(transport.ErrRepositoryNotFound, err)
		}
		return nil, errors.Join(errDenied, err)
	}
	return nil, err
}

// ask sends a request for one commit, of which nothing is here yet.
func (s *sshSession) ask(req *packp.UploadPackRequest) error {
	if err := req.UploadRequest.Encode(s.stdin); err != nil {
		return err
	}
	if err := pktline.NewEncoder(s.stdin).EncodeString("done\n"); err != nil {
		return err
	}
	return s.stdin.Close()
}

// saysMissing knows how servers say that there is no such repository, or none for this key.
func saysMissing(text string) bool {
	text = strings.ToLower(text)
	for _, known := range []string{
		"repository not found", "repository does not exist", "does not appear to be a git repository", "no such repository",
		"project you were looking for could not be found", "not found or you don't have permission", "cannot find repository",
	} {
		if strings.Contains(text, known) {
			return true
		}
	}
	return false
}

// signerOf reads the private key.
func signerOf(c credential) (ssh.Signer, error) {
	if rounds(c.identity) > maxRounds {
		return nil, errRounds
	}
	signer, err := ssh.ParsePrivateKey(c.identity)
	var missing *ssh.PassphraseMissingError
	if errors.As(err, &missing) && c.password != "" {
		signer, err = ssh.ParsePrivateKeyWithPassphrase(c.identity, []byte(c.password))
	}
	switch {
	case errors.As(err, &missing), errors.Is(err, x509.IncorrectPasswordError):
		return nil, errPassphrase
	case err != nil:
		return nil, errIdentity
	}
	return signer, nil
}

// rounds is how much work the passphrase of an OpenSSH key is made to cost.
func rounds(key []byte) uint32 {
	block, _ := pem.Decode(key)
	if block == nil {
		return 0
	}
	rest, ok := bytes.CutPrefix(block.Bytes, []byte("openssh-key-v1\x00"))
	var head struct {
		Cipher, KDF, Options string
		Rest                 []byte `ssh:"rest"`
	}
	var options struct {
		Salt   string
		Rounds uint32
	}
	if !ok || ssh.Unmarshal(rest, &head) != nil || ssh.Unmarshal([]byte(head.Options), &options) != nil {
		return 0
	}
	return options.Rounds
}

// hostCheck compares the key that a host shows with the known ones. It never learns a key.
type hostCheck struct {
	known       ssh.HostKeyCallback
	authorities bool // whether known hosts are also known by who signed their keys
	verdict     error
	checked     bool
}

func newHostCheck(r remote) (*hostCheck, error) {
	known, _, err := knownhosts.New(r.cred.knownHosts)
	if err != nil {
		return nil, errKnownHosts
	}
	return &hostCheck{known: known, authorities: bytes.Contains(r.cred.knownHosts, []byte("@cert-authority"))}, nil
}

func (h *hostCheck) callback(host string, remote net.Addr, key ssh.PublicKey) error {
	h.checked, h.verdict = true, nil
	err := h.known(host, remote, key)
	var unknown *xknownhosts.KeyError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unknown) && len(unknown.Want) == 0:
		h.verdict = errHostUnknown
	default:
		h.verdict = errHostChanged
	}
	return h.verdict
}

// algorithms are those of the keys that are known of the host, so that it shows one of these and not another that it has
// too. They are nil, which stands for all, when the host is not known or is known by an authority.
func (h *hostCheck) algorithms(hostPort string) []string {
	var known *xknownhosts.KeyError
	if h.authorities || !errors.As(h.known(hostPort, &net.TCPAddr{}, noKey{}), &known) {
		return nil
	}
	var out []string
	for _, k := range known.Want {
		if kind := k.Key.Type(); kind == ssh.KeyAlgoRSA {
			out = append(out, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
		} else {
			out = append(out, kind)
		}
	}
	return out
}

// explain tells why a connection was not made.
func (h *hostCheck) explain(err error) error {
	var negotiation *ssh.AlgorithmNegotiationError
	switch {
	case h.verdict != nil:
		return errors.Join(h.verdict, err)
	case h.checked && strings.Contains(err.Error(), "unable to authenticate"):
		return errors.Join(errKeyRefused, err)
	case !h.checked && errors.As(err, &negotiation):
		return errors.Join(errHostChanged, err)
	}
	return err
}

// noKey is a key that no host has.
type noKey struct{}

func (noKey) Type() string                        { return "none" }
func (noKey) Marshal() []byte                     { return []byte("none") }
func (noKey) Verify([]byte, *ssh.Signature) error { return errHostUnknown }

// firstBytes keeps the beginning of what is written to it.
type firstBytes struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (f *firstBytes) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if room := 4096 - f.text.Len(); room > 0 {
		f.text.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

func (f *firstBytes) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.text.String()
}
