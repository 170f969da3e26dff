package source

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/dial"
)

// selfSigned is a new certificate, in DER.
func selfSigned(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "other"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// sshServer runs git's upload-pack for those that hold the permitted key.
type sshServer struct {
	root      string
	address   string
	keys      []ssh.Signer
	permitted ssh.PublicKey

	mu      sync.Mutex
	users   []string
	command func(path string, channel ssh.Channel) (handled bool)
}

func newSSHServer(t *testing.T, root string, permitted ssh.PublicKey) *sshServer {
	t.Helper()
	s := &sshServer{root: root, permitted: permitted, keys: hostKeys(t)}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	s.address = listener.Addr().String()
	config := &ssh.ServerConfig{PublicKeyCallback: func(c ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.users = append(s.users, c.User())
		if string(key.Marshal()) != string(s.permitted.Marshal()) {
			return nil, errors.New("not permitted")
		}
		return nil, nil
	}}
	for _, key := range s.keys {
		config.AddHostKey(key)
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go s.serve(t, conn, config)
		}
	}()
	return s
}

// hostKeys are two keys of different kinds, as each host has more than one.
func hostKeys(t *testing.T) []ssh.Signer {
	t.Helper()
	_, a, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	b, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	first, err := ssh.NewSignerFromKey(a)
	if err != nil {
		t.Fatal(err)
	}
	second, err := ssh.NewSignerFromKey(b)
	if err != nil {
		t.Fatal(err)
	}
	return []ssh.Signer{first, second}
}

func (s *sshServer) serve(t *testing.T, conn net.Conn, config *ssh.ServerConfig) {
	t.Helper()
	defer func() { _ = conn.Close() }()
	_, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for c := range channels {
		channel, requests, err := c.Accept()
		if err != nil {
			return
		}
		go func() {
			for r := range requests {
				if r.Type != "exec" {
					_ = r.Reply(false, nil)
					continue
				}
				_ = r.Reply(true, nil)
				s.run(t.Context(), string(r.Payload[4:]), channel)
			}
		}()
	}
}

func (s *sshServer) run(ctx context.Context, command string, channel ssh.Channel) {
	defer func() { _ = channel.Close() }()
	quotedPath, ok := strings.CutPrefix(command, "git-upload-pack ")
	path := strings.Trim(strings.ReplaceAll(quotedPath, `'\''`, "'"), "'")
	status := uint32(1)
	s.mu.Lock()
	handle := s.command
	s.mu.Unlock()
	switch {
	case !ok:
	case handle != nil && handle(path, channel):
	default:
		cmd := exec.CommandContext(ctx, "git", "upload-pack", filepath.Join(s.root, path))
		cmd.Env = []string{"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null"}
		cmd.Stdout, cmd.Stderr = channel, channel.Stderr()
		stdin, err := cmd.StdinPipe()
		if err == nil && cmd.Start() == nil {
			go func() {
				_, _ = io.Copy(stdin, channel)
				_ = stdin.Close()
			}()
			if cmd.Wait() == nil {
				status = 0
			}
		}
	}
	_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{status}))
}

// known is the line of known_hosts for a key of the server.
func (s *sshServer) known(key ssh.PublicKey) string {
	return knownhosts.Line([]string{knownhosts.Normalize(s.address)}, key)
}

func (s *sshServer) source(path string) v1alpha1.Source {
	return with(gitSource("ssh://me@"+s.address+path, "main", ""), "key")
}

func TestSSHIsOpenedWithAKeyWhenTheHostIsKnown(t *testing.T) {
	s := newGitServer(t)
	commit := s.push(map[string]string{"f": "one"})
	s.git("tag", "-a", "-m", "annotated", "v1.0.0")
	s.git("push", "-q", "origin", "--tags")
	for name, passphrase := range map[string]string{"a plain key": "", "a key with a passphrase": "S3NT1NEL"} {
		key, public := identity(t)
		if passphrase != "" {
			key, public = sealedIdentity(t)
		}
		server := newSSHServer(t, s.root, public)
		if passphrase != "" {
			server.keys = server.keys[:1] // one is enough: a passphrase costs time on purpose
		}
		for _, hostKey := range server.keys { // whichever is known is the one that the host has to show
			v := &vault{}
			v.set("key", map[string]string{"identity": key, "known_hosts": server.known(hostKey.PublicKey()), "password": passphrase})
			sources := New(v, anywhere, Limits{})
			b, err := sources.Fetch(t.Context(), "team", server.source("/app.git"))
			if err != nil {
				t.Errorf("%s, %s: %v", name, hostKey.PublicKey().Type(), err)
				continue
			}
			if b.Revision != "main@sha1:"+commit || string(b.Files["f"]) != "one" {
				t.Errorf("got %s", b.Revision)
			}
			if passphrase != "" {
				continue
			}
			tagged := server.source("/app.git")
			tagged.Git.Ref = v1alpha1.GitRef{Tag: "v1.0.0"}
			if b, err := New(v, anywhere, Limits{}).Fetch(t.Context(), "team", tagged); err != nil || b.Revision != "v1.0.0@sha1:"+commit {
				t.Errorf("by an annotated tag: %v, %v", b, err)
			}
		}
		server.mu.Lock()
		if server.users[0] != "me" {
			t.Errorf("the user is %v", server.users)
		}
		server.mu.Unlock()
	}
}

func TestSSHTellsWhatIsWrongAndTrustsNoHostThatIsNotKnown(t *testing.T) {
	s := newGitServer(t)
	s.push(map[string]string{"f": "one"})
	key, public := identity(t)
	server := newSSHServer(t, s.root, public)
	other := hostKeys(t)[0].PublicKey()
	stranger, _ := identity(t)
	known := server.known(server.keys[0].PublicKey())
	cert := "@cert-authority " + knownhosts.Normalize(server.address) + " " + strings.TrimSpace(string(ssh.MarshalAuthorizedKey(other)))
	for name, tc := range map[string]struct{ identity, knownHosts, path, reason, message string }{
		"an unknown host":    {key, "other.test " + strings.SplitN(known, " ", 2)[1], "/app.git", v1alpha1.ReasonSourceFailed, "is on a host that key known_hosts of Secret key does not name"},
		"no host at all":     {key, "# nothing", "/app.git", v1alpha1.ReasonSourceFailed, "is on a host that key known_hosts of Secret key does not name"},
		"another host key":   {key, server.known(other), "/app.git", v1alpha1.ReasonSourceFailed, "is on a host that shows another key than known_hosts of Secret key has"},
		"a revoked key":      {key, known + "\n@revoked * " + strings.SplitN(known, " ", 2)[1], "/app.git", v1alpha1.ReasonSourceFailed, "is on a host that shows another key than known_hosts of Secret key has"},
		"another authority":  {key, cert, "/app.git", v1alpha1.ReasonSourceFailed, "is on a host that shows another key than known_hosts of Secret key has"},
		"another identity":   {stranger, known, "/app.git", v1alpha1.ReasonSourceFailed, "is on a host that refuses the identity of Secret key"},
		"another repository": {key, known, "/it's missing!.git", v1alpha1.ReasonSourceNotFound, "does not exist, or the credentials of Secret key may not read it"},
	} {
		t.Run(name, func(t *testing.T) {
			v := &vault{}
			v.set("key", map[string]string{"identity": tc.identity, "known_hosts": tc.knownHosts})
			src := server.source(tc.path)
			src.Git.URL = strings.ReplaceAll(src.Git.URL, " ", "%20")
			_, err := New(v, anywhere, Limits{}).Fetch(t.Context(), "team", src)
			a, parseErr := parseAddress(src.Git.URL)
			if parseErr != nil {
				t.Fatal(parseErr)
			}
			wantFailure(t, err, a.String(), false, tc.reason, "repository URL "+tc.message)
		})
	}
}

func TestAnSSHServerThatMisbehavesIsToldWithoutItsWords(t *testing.T) {
	s := newGitServer(t)
	s.push(map[string]string{"f": strings.Repeat("x", 1<<20)})
	key, public := identity(t)
	server := newSSHServer(t, s.root, public)
	v := &vault{}
	v.set("key", map[string]string{"identity": key, "known_hosts": server.known(server.keys[0].PublicKey())})
	const sentinel = "S3NT1NEL of the far side\n"
	hang := make(chan struct{})
	defer close(hang)
	for name, tc := range map[string]struct {
		command func(string, ssh.Channel) bool
		limits  Limits
		message string
	}{
		"a refusal":     {func(_ string, c ssh.Channel) bool { _, _ = io.WriteString(c.Stderr(), sentinel); return true }, Limits{}, "is not given to the identity of Secret key"},
		"a shell":       {func(_ string, c ssh.Channel) bool { _, _ = io.WriteString(c, sentinel); return true }, Limits{}, "does not answer like a git server"},
		"a big commit":  {nil, Limits{MaxRepositoryBytes: 1 << 18}, "holds more than 262144 bytes in one commit; raise --source-max-repository-bytes"},
		"nothing comes": {func(string, ssh.Channel) bool { <-hang; return true }, Limits{FetchTimeout: 300 * time.Millisecond}, "did not answer within 300ms (--source-fetch-timeout)"},
	} {
		t.Run(name, func(t *testing.T) {
			server.mu.Lock()
			server.command = tc.command
			server.mu.Unlock()
			src := server.source("/app.git")
			_, err := New(v, anywhere, tc.limits).Fetch(t.Context(), "team", src)
			wantFailure(t, err, src.Git.URL, false, v1alpha1.ReasonSourceFailed, "repository URL "+tc.message)
		})
	}
	src := server.source("/app.git")
	_, err := New(v, dial.New(dial.Policy{}), Limits{}).Fetch(t.Context(), "team", src)
	wantFailure(t, err, src.Git.URL, false, v1alpha1.ReasonSourceFailed,
		"repository URL cannot be fetched: convoy does not connect to loopback addresses unless its operator permits it with --allow-loopback")
	url, _ := hangingServer(t)
	silent := strings.Replace(url, "http://", "ssh://", 1)
	_, err = New(v, anywhere, Limits{FetchTimeout: 300 * time.Millisecond}).Fetch(t.Context(), "team", with(gitSource(silent, "main", ""), "key"))
	wantFailure(t, err, silent, false, v1alpha1.ReasonSourceFailed, "repository URL did not answer within 300ms (--source-fetch-timeout)")
}

func TestACommitThatIsNoTipIsTakenOverSSHFromTheHistory(t *testing.T) {
	s := newGitServer(t)
	first := s.push(map[string]string{"f": "one", "gone": strings.Repeat("z", 4096)})
	s.git("rm", "-q", "gone")
	second := s.push(map[string]string{"f": "two"})
	s.push(map[string]string{"f": "three"})
	key, public := identity(t)
	server := newSSHServer(t, s.root, public)
	v := &vault{}
	v.set("key", map[string]string{"identity": key, "known_hosts": server.known(server.keys[0].PublicKey())})
	at := func(commit string) v1alpha1.Source {
		src := server.source("/app.git")
		src.Git.Ref = v1alpha1.GitRef{Commit: commit}
		return src
	}
	fetch := func(l Limits, commit string) (*Bundle, error) {
		return New(v, anywhere, l).Fetch(t.Context(), "team", at(commit))
	}
	if b, err := fetch(Limits{}, first); err != nil || string(b.Files["f"]) != "one" || len(b.Files) != 2 {
		t.Errorf("the first commit: %v, %v", b, err)
	}
	b, err := fetch(Limits{}, second)
	if err != nil || string(b.Files["f"]) != "two" || len(b.Files) != 1 {
		t.Errorf("the second commit: %v, %v", b, err)
	}
	const missing = "0123456789012345678901234567890123456789"
	for _, tc := range []struct {
		limits Limits
		commit string
		serve  string
	}{{Limits{}, missing, "false"}, {Limits{MaxRepositoryBytes: 4096}, first, "false"}, {Limits{}, missing, "true"}} {
		s.run(s.bare, "config", "uploadpack.allowReachableSHA1InWant", tc.serve)
		_, err := fetch(tc.limits, tc.commit)
		wantFailure(t, err, at("").Git.URL, false, v1alpha1.ReasonSourceNotFound,
			"repository URL has no commit "+tc.commit+", or its server does not give it; what was delivered stays")
	}
}

func TestAKeyWhosePassphraseCostsTooMuchIsRefused(t *testing.T) {
	honest, _ := sealedIdentity(t)
	if got := rounds([]byte(honest)); got == 0 || got > maxRounds {
		t.Fatalf("an honest key costs %d rounds", got)
	}
	head := ssh.Marshal(struct {
		Cipher, KDF, Options string
		Keys                 uint32
		Public, Private      string
	}{"aes256-ctr", "bcrypt", string(ssh.Marshal(struct {
		Salt   string
		Rounds uint32
	}{"salt", 1 << 30})), 1, "public", "private"})
	costly := pem.EncodeToMemory(&pem.Block{Type: "OPENSSH PRIVATE KEY", Bytes: append([]byte("openssh-key-v1\x00"), head...)})
	v := &vault{}
	v.set("key", map[string]string{"identity": string(costly), "known_hosts": "# none", "password": "x"})
	_, err := New(v, anywhere, Limits{}).Fetch(t.Context(), "team", with(gitSource("git@127.0.0.1:x", "main", ""), "key"))
	wantFailure(t, err, "", false, v1alpha1.ReasonSourceFailed,
		"repository git@127.0.0.1:x cannot be fetched: Secret key holds in key identity a private key whose passphrase costs too many rounds")
}

func FuzzKnownHosts(f *testing.F) {
	f.Add([]byte("example.test ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ4Nm1wV"))
	f.Add([]byte("@cert-authority *,!x ssh-rsa AAAA\n|1|a|b ssh-rsa AAAA\n[::1]:22 x y"))
	f.Fuzz(func(_ *testing.T, text []byte) {
		h, err := safely(func() (any, error) { return newHostCheck(remote{cred: credential{knownHosts: text}}) })
		if err != nil {
			return
		}
		h.(*hostCheck).algorithms("example.test:22")
	})
}

func FuzzIdentity(f *testing.F) {
	f.Add([]byte("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEA\n-----END OPENSSH PRIVATE KEY-----\n"))
	f.Fuzz(func(_ *testing.T, key []byte) { rounds(key) })
}
