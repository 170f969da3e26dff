// Package dial opens connections to servers that users name: the servers and proxies of kubeconfigs, and sources. It
// decides, after name resolution and for each address that is tried, whether convoy connects to it. It never decides
// which server is meant, follows no redirect, and knows nothing of what is spoken on a connection. The packages that
// talk to such servers use one Dialer for all of them; the hub and Temporal are named by the operator and are not its
// business.
package dial

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/idna"
)

const (
	// timeout of one connection, and of one look-up of CheckHost.
	timeout   = 10 * time.Second
	keepAlive = 30 * time.Second

	// maxHost is the length of a host in bytes that is still looked at: no name is longer in any script, and turning
	// one into ASCII takes a time that grows with the square of its length.
	maxHost = 1024

	digits    = "0123456789"
	nameBytes = digits + "abcdefghijklmnopqrstuvwxyz-_." // in lower case
)

// Policy is what the operator decides about addresses. The zero value is the default.
type Policy struct {
	// AllowLoopback connects to loopback addresses (--allow-loopback).
	AllowLoopback bool
	// Deny is refused in addition to what always is (--deny-addresses). It also holds for loopback, and for IPv4
	// addresses within IPv6 ones.
	Deny []netip.Prefix
}

// Dialer opens TCP connections to the addresses that its policy permits. It is safe for concurrent use.
type Dialer struct {
	policy Policy
	net    net.Dialer
}

// New makes a Dialer for p, with the resolver of the system.
func New(p Policy) *Dialer {
	d := &Dialer{policy: Policy{AllowLoopback: p.AllowLoopback, Deny: plain(p.Deny)}}
	d.net = net.Dialer{Timeout: timeout, KeepAlive: keepAlive, ControlContext: d.control}
	return d
}

// DialContext connects to a host and port over tcp, tcp4 or tcp6, within 10 s. A name is resolved first; of its
// addresses those that are refused are passed over. When that leaves none, the error is a *net.OpError that holds a
// *RefusedError; another network is a net.UnknownNetworkError; all other errors are those of net.Dialer.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	switch network {
	case "tcp", "tcp4", "tcp6":
		return d.net.DialContext(ctx, network, address)
	}
	return nil, &net.OpError{Op: "dial", Net: network, Err: net.UnknownNetworkError(network)}
}

// control is called by net between the resolution and the connection, with the address that is about to be tried. So
// it does not matter how the host was spelled, or what its name resolved to at another time.
func (d *Dialer) control(_ context.Context, _, address string, _ syscall.RawConn) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return unspecified // how net writes that no host is given
	}
	if r := d.policy.judge(a.Addr()); r != nil {
		return r
	}
	return nil
}

// CheckHost judges a host, without a port, that a proxy connects to instead of this process. An IP address is judged
// as it stands; spellings of one that only some resolvers read are refused. A name is resolved here, and refused when
// any of its addresses is. A name that does not resolve here is left to the proxy, which may know it.
//
// The error is a *RefusedError, or the error of ctx when that ends first.
func (d *Dialer) CheckHost(ctx context.Context, host string) error {
	name, a, err := read(host)
	if err != nil {
		return err
	}
	if name == "" {
		return d.refuse(a)
	}
	lookup, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	addresses, err := d.net.Resolver.LookupNetIP(lookup, "ip", name)
	if err != nil {
		return ctx.Err()
	}
	return d.refuse(addresses...)
}

// refuse returns why the first refused address is, or nil.
func (d *Dialer) refuse(addresses ...netip.Addr) error {
	for _, a := range addresses {
		if r := d.policy.judge(a); r != nil {
			return r
		}
	}
	return nil
}

// read tells a host that is a name from one that is an address; the name is empty then.
func read(host string) (name string, a netip.Addr, err error) {
	host, ok := canonical(host)
	if !ok {
		return "", a, misspelt
	}
	if host == "" {
		return "", a, unspecified
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return "", a, nil
	}
	if strings.ContainsFunc(host, foreign) || endsInNumber(host) {
		return "", a, misspelt
	}
	return host, a, nil
}

// canonical is the host in ASCII, in lower case, without brackets and dots at its end: HTTP clients turn what other
// scripts have for digits and dots into the ASCII ones. It is false for what cannot be a host.
func canonical(host string) (string, bool) {
	if len(host) > maxHost {
		return "", false
	}
	if inner, ok := strings.CutPrefix(host, "["); ok && strings.HasSuffix(inner, "]") {
		host = strings.TrimSuffix(inner, "]")
	}
	if strings.ContainsFunc(host, func(r rune) bool { return r > 0x7e }) {
		ascii, err := idna.Lookup.ToASCII(host)
		if err != nil {
			return "", false
		}
		host = ascii
	}
	return strings.ToLower(strings.TrimRight(host, ".")), true
}

// foreign reports whether a character stands in no name of a host.
func foreign(r rune) bool { return !strings.ContainsRune(nameBytes, r) }

// endsInNumber reports whether the last label of a host in lower case is a decimal, octal or hexadecimal number. No
// top-level domain is one, but 0x7f.1 and 2130706433 are read as IPv4 addresses by many.
func endsInNumber(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	hex, isHex := strings.CutPrefix(last, "0x")
	return strings.Trim(last, digits) == "" || isHex && strings.Trim(hex, digits+"abcdef") == ""
}
