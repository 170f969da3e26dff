package env

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// SSHAccess is what opens the repositories of a GitServer over ssh.
type SSHAccess struct {
	// URL is the base of the repositories' URLs, ssh://git@127.0.0.1:<port>.
	URL string
	// Identity is the permitted private key, as OpenSSH writes it.
	Identity []byte
	// KnownHosts is the line that names the server's key.
	KnownHosts []byte
}

// sshServer runs git's upload-pack for those who hold the permitted key. It serves reads only.
type sshServer struct {
	dir      string
	listener net.Listener
	config   *ssh.ServerConfig
	ended    context.Context //nolint:containedctx // of the programs that it runs, which end with the server
	end      context.CancelFunc

	mu    sync.Mutex
	conns map[net.Conn]bool
}

// ServeSSH also serves the repositories over ssh, with keys of its own. It ends with the server.
func (s *GitServer) ServeSSH() (*SSHAccess, error) {
	hostKey, _, err := newSSHKey()
	if err != nil {
		return nil, err
	}
	permitted, identity, err := newSSHKey()
	if err != nil {
		return nil, err
	}
	listener, err := listen(0)
	if err != nil {
		return nil, fmt.Errorf("start the git server over ssh: %w", err)
	}
	server := &sshServer{dir: s.dir, listener: listener, conns: map[net.Conn]bool{}}
	server.ended, server.end = context.WithCancel(context.Background())
	server.config = &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if string(key.Marshal()) != string(permitted.PublicKey().Marshal()) {
			return nil, errors.New("the key is not permitted")
		}
		return &ssh.Permissions{}, nil
	}}
	server.config.AddHostKey(hostKey)
	go server.accept()
	s.endWith(server)
	address := listener.Addr().String()
	return &SSHAccess{
		URL: "ssh://git@" + address, Identity: identity,
		KnownHosts: []byte(knownhosts.Line([]string{knownhosts.Normalize(address)}, hostKey.PublicKey()) + "\n"),
	}, nil
}

func newSSHKey() (ssh.Signer, []byte, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make an ssh key: %w", err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("make an ssh key: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		return nil, nil, fmt.Errorf("write an ssh key: %w", err)
	}
	return signer, pem.EncodeToMemory(block), nil
}

func (s *sshServer) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		if s.keep(conn) {
			go s.serve(conn)
		}
	}
}

// keep remembers a connection, so that it ends with the server.
func (s *sshServer) keep(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended.Err() != nil {
		_ = conn.Close()
		return false
	}
	s.conns[conn] = true
	return true
}

// Close ends the server, its connections and the programs that it runs.
func (s *sshServer) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end()
	for conn := range s.conns {
		_ = conn.Close()
	}
	return s.listener.Close()
}

func (s *sshServer) serve(conn net.Conn) {
	defer func() {
		_ = conn.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.conns, conn)
	}()
	_, channels, requests, err := ssh.NewServerConn(conn, s.config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for c := range channels {
		if c.ChannelType() != "session" {
			_ = c.Reject(ssh.UnknownChannelType, "only sessions")
			continue
		}
		channel, requests, err := c.Accept()
		if err != nil {
			return
		}
		go s.session(channel, requests)
	}
}

func (s *sshServer) session(channel ssh.Channel, requests <-chan *ssh.Request) {
	defer func() { _ = channel.Close() }()
	for r := range requests {
		var exec struct{ Command string }
		if r.Type != "exec" || ssh.Unmarshal(r.Payload, &exec) != nil {
			_ = r.Reply(false, nil)
			continue
		}
		_ = r.Reply(true, nil)
		status := struct{ Status uint32 }{s.uploadPack(channel, exec.Command)}
		_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(status))
		return
	}
}

// uploadPack runs the one command that is served, and returns its exit status.
func (s *sshServer) uploadPack(channel ssh.Channel, command string) uint32 {
	word, ok := strings.CutPrefix(command, "git-upload-pack ")
	path := strings.Trim(strings.Trim(word, "'"), "/")
	if !ok || !filepath.IsLocal(path) {
		_, _ = io.WriteString(channel.Stderr(), "no such command\n")
		return 1
	}
	cmd := exec.CommandContext(s.ended, "git", "upload-pack", filepath.Join(s.dir, path)) //nolint:gosec // for tests
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir}, gitEnv...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Stdout, cmd.Stderr = channel, channel.Stderr()
	stdin, err := cmd.StdinPipe()
	if err != nil || cmd.Start() != nil {
		return 1
	}
	go func() { // ends with the channel, which is closed after the program ended
		_, _ = io.Copy(stdin, channel)
		_ = stdin.Close()
	}()
	if cmd.Wait() != nil {
		return 1
	}
	return 0
}
