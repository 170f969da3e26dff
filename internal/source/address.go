package source

import (
	"errors"
	"net"
	"net/url"
	"path"
	"regexp"
	"strings"
)

// The schemes of repositories.
const (
	schemeHTTP  = "http"
	schemeHTTPS = "https"
	schemeSSH   = "ssh"
	schemeFile  = "file"
)

// defaultUser of ssh is what the large hosts call theirs.
const defaultUser = "git"

var (
	errAddress = errors.New("is no https, http, ssh or file URL of a repository, nor user@host:path")
	errSecrets = errors.New("holds credentials, a query or a fragment, which are not supported; only scheme, host and path are, and the user of ssh")
	errClimbs  = errors.New("climbs out of the host")
)

// shortForm is how ssh is written without a scheme. A slash before the colon would make it a path.
var shortForm = regexp.MustCompile(`^(?:([^@:/\s]+)@)?([^@:/\s\[\]]+|\[[0-9a-fA-F:.]+\]):(.+)$`)

// address says where a repository is. It holds nothing secret and may be shown.
type address struct {
	url   *url.URL
	short bool // written as user@host:path, whose path need not begin with a slash
}

// parseAddress reads the URL of a repository.
func parseAddress(text string) (address, error) {
	if m := shortForm.FindStringSubmatch(text); m != nil && !strings.HasPrefix(m[3], "//") {
		if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f }) || strings.HasPrefix(m[3], "-") {
			return address{}, errAddress
		}
		u := &url.URL{Scheme: schemeSSH, Host: m[2], Path: m[3]}
		if m[1] != "" {
			u.User = url.User(m[1])
		}
		return address{u, true}, nil
	}
	u, err := url.Parse(text)
	if err != nil || strings.Contains(u.Path, "\x00") {
		return address{}, errAddress
	}
	_, hasPassword := u.User.Password()
	switch u.Scheme {
	case schemeHTTP, schemeHTTPS:
		if u.Host == "" {
			return address{}, errAddress
		}
	case schemeSSH:
		if u.Hostname() == "" || strings.Trim(u.Path, "/") == "" {
			return address{}, errAddress
		}
	case schemeFile:
		if u.Host != "" || strings.Trim(u.Path, "/") == "" {
			return address{}, errAddress
		}
	default:
		return address{}, errAddress
	}
	if hasPassword || u.User != nil && u.Scheme != schemeSSH || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return address{}, errSecrets
	}
	return address{u, false}, nil
}

// String is the address as its user would write it, without slashes at its end.
func (a address) String() string {
	if !a.short {
		return strings.TrimRight(a.url.String(), "/")
	}
	host := a.url.Host
	if name := a.url.User.Username(); name != "" {
		host = name + "@" + host
	}
	return host + ":" + a.url.Path
}

func (a address) scheme() string { return a.url.Scheme }

// user of ssh.
func (a address) user() string {
	if name := a.url.User.Username(); name != "" {
		return name
	}
	return defaultUser
}

// hostPort is what to connect to with ssh.
func (a address) hostPort() string {
	port := a.url.Port()
	if port == "" {
		port = "22"
	}
	return net.JoinHostPort(a.url.Hostname(), port)
}

// remotePath is the path as an ssh server is told it: one that begins with a tilde is relative to a home.
func (a address) remotePath() string {
	if !a.short && strings.HasPrefix(a.url.Path, "/~") {
		return a.url.Path[1:]
	}
	return a.url.Path
}

// origin is what credentials are for: they go nowhere else. The path is not part of it.
func (a address) origin() string {
	host, port := strings.ToLower(a.url.Hostname()), a.url.Port()
	switch {
	case a.scheme() == schemeSSH:
		return schemeSSH + " " + a.user() + "@" + strings.ToLower(a.hostPort())
	case port == "" && a.scheme() == schemeHTTP:
		port = "80"
	case port == "" && a.scheme() == schemeHTTPS:
		port = "443"
	}
	return a.scheme() + " " + net.JoinHostPort(host, port)
}

// resolve reads the URL of a submodule, which may be relative to the repository that names it.
func (a address) resolve(text string) (address, error) {
	if !strings.HasPrefix(text, "./") && !strings.HasPrefix(text, "../") {
		return parseAddress(text)
	}
	to := *a.url
	joined := path.Join(strings.Trim(a.url.Path, "/"), text)
	if joined == "." || joined == ".." || strings.HasPrefix(joined, "../") {
		return address{}, errClimbs
	}
	if strings.HasPrefix(a.url.Path, "/") {
		joined = "/" + joined
	}
	to.Path, to.RawPath = joined, ""
	return parseAddress(address{&to, a.short}.String())
}
