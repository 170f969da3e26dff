package dial

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
)

// listener accepts connections on a loopback port and counts them.
func listener(t *testing.T) (port string, accepted chan net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted = make(chan net.Conn, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	t.Cleanup(func() { _ = l.Close() })
	_, port, err = net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port, accepted
}

// guarded is a Dialer that asks the DNS server.
func guarded(p Policy, s *dnsServer) *Dialer {
	d := New(p)
	d.net.Resolver = s.resolver()
	return d
}

// outcome is the *RefusedError in err, nil for no error; any other error ends the test.
func outcome(t *testing.T, err error) *RefusedError {
	t.Helper()
	var r *RefusedError
	if err != nil && !errors.As(err, &r) {
		t.Fatalf("error %v is no refusal", err)
	}
	return r
}

func dialed(t *testing.T, d *Dialer, address string) error {
	t.Helper()
	c, err := d.DialContext(t.Context(), "tcp", address)
	if err == nil {
		_ = c.Close()
	}
	return err
}

func TestLoopbackIsDialedOnlyWhenItIsPermitted(t *testing.T) {
	port, accepted := listener(t)
	err := dialed(t, New(Policy{}), "127.0.0.1:"+port)
	if r := outcome(t, err); r != loopback {
		t.Errorf("by default: %v, want %v", r, loopback)
	}
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "dial" {
		t.Errorf("%v is no error of a dial", err)
	}
	if err := dialed(t, New(Policy{AllowLoopback: true}), "127.0.0.1:"+port); err != nil {
		t.Errorf("permitted: %v", err)
	}
	all := Policy{AllowLoopback: true, Deny: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}
	if r := outcome(t, dialed(t, New(all), "127.0.0.1:"+port)); r != denied {
		t.Errorf("permitted and excluded: %v, want %v", r, denied)
	}
	c := <-accepted
	_ = c.Close()
	if len(accepted) != 0 {
		t.Error("a refused address was connected to")
	}
}

func TestAddressesThatAreNeverDialed(t *testing.T) {
	port, accepted := listener(t)
	d := New(Policy{AllowLoopback: true})
	for host, want := range map[string]*RefusedError{
		"":                         unspecified,
		"0.0.0.0":                  unspecified,
		"[::]":                     unspecified,
		"[::ffff:0.0.0.0]":         unspecified,
		"169.254.169.254":          linkLocal,
		"[::ffff:169.254.169.254]": linkLocal,
		"[fe80::1]":                linkLocal,
		"[fe80::1%lo]":             linkLocal,
		"[::1%lo]":                 zoned,
		"[ff02::1]":                multicast,
		"224.0.0.1":                multicast,
		"255.255.255.255":          broadcast,
		"100.100.100.200":          metadata,
		"[fd00:ec2::254]":          metadata,
	} {
		if r := outcome(t, dialed(t, d, host+":"+port)); r != want {
			t.Errorf("%s: %v, want %v", host, r, want)
		}
	}
	if len(accepted) != 0 {
		t.Error("a refused address was connected to")
	}
}

func TestOnlyTCPIsDialed(t *testing.T) {
	for _, network := range []string{"udp", "udp4", "ip4:icmp", "unix", "unixgram", "", "tcp5"} {
		_, err := New(Policy{AllowLoopback: true}).DialContext(t.Context(), network, "127.0.0.1:1")
		if _, ok := errors.AsType[net.UnknownNetworkError](err); !ok {
			t.Errorf("%q: %v", network, err)
		}
	}
}

func TestANameIsJudgedByEachOfItsAddresses(t *testing.T) {
	port, _ := listener(t)
	s := newDNSServer(t)
	s.set("metadata.test", "169.254.169.254")
	s.set("six.test", "fd00:ec2::254")
	s.set("mapped.test", "::ffff:169.254.169.254")
	s.set("here.test", "127.0.0.1")
	s.set("nowhere.test", "0.0.0.0")
	s.set("forbidden.test", "169.254.169.254 169.254.170.2 fe80::1")
	s.set("mixed.test", "169.254.169.254 127.0.0.1")
	s.set("both.test", "fd00:ec2::254 127.0.0.1")
	s.set("moving.test", "127.0.0.1", "169.254.169.254")
	d := guarded(Policy{AllowLoopback: true}, s)
	for _, tc := range []struct {
		name string
		want *RefusedError
	}{
		{"metadata.test", linkLocal},
		{"six.test", metadata},
		{"mapped.test", linkLocal},
		{"nowhere.test", unspecified},
		{"forbidden.test", linkLocal},
		{"here.test", nil},
		{"mixed.test", nil},
		{"both.test", nil},
		{"moving.test", nil},
		{"moving.test", linkLocal},
	} {
		if r := outcome(t, dialed(t, d, tc.name+":"+port)); r != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, r, tc.want)
		}
	}
	if r := outcome(t, dialed(t, guarded(Policy{}, s), "here.test:"+port)); r != loopback {
		t.Errorf("a name of loopback by default: %v, want %v", r, loopback)
	}
}

func TestNoSpellingOfAHostReachesARefusedAddress(t *testing.T) {
	port, accepted := listener(t)
	s := newDNSServer(t)
	for _, host := range []string{
		"2130706433", "0x7f000001", "0x7F.0.0.1", "0177.0.0.1", "017700000001", "127.1", "127.0.1", "127.0.0.1.", "127.000.000.001",
		"0x7f.1", "1.0x7f", "localhost", "LOCALHOST.", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:127.0.0.1]", "0", "①②⑦.0.0.1", "127。0。0。1",
	} {
		s.set(host, "127.0.0.1") // as a resolver that reads it as an address would answer
		if err := dialed(t, guarded(Policy{}, s), host+":"+port); err == nil {
			t.Errorf("%s is dialed", host)
		}
		if err := guarded(Policy{}, s).CheckHost(t.Context(), host); err == nil {
			t.Errorf("%s passes for a proxy", host)
		}
	}
	if len(accepted) != 0 {
		t.Error("a refused address was connected to")
	}
}

func TestCheckHostJudgesWhatAProxyWouldConnectTo(t *testing.T) {
	s := newDNSServer(t)
	s.set("good.test", "192.0.2.1 2001:db8::1")
	s.set("mixed.test", "192.0.2.1 169.254.169.254")
	s.set("six.test", "192.0.2.1 fd00:ec2::254")
	s.set("here.test", "127.0.0.1")
	s.set("xn--bcher-kva.test", "169.254.169.254")
	s.set("empty.test")
	for _, loose := range []bool{false, true} {
		d := guarded(Policy{AllowLoopback: loose}, s)
		onlyStrict := loopback
		if loose {
			onlyStrict = nil
		}
		for host, want := range map[string]*RefusedError{
			"192.0.2.1": nil, "2001:db8::1": nil, "[2001:db8::1]": nil, "10.0.0.1": nil, "good.test": nil, "GOOD.test.": nil,
			"unknown.test": nil, "empty.test": nil, "0x7f.test": nil, "api-0x1": nil,
			"127.0.0.1": onlyStrict, "::1": onlyStrict, "[::1]": onlyStrict, "here.test": onlyStrict, "127.0.0.1.": onlyStrict,
			"１２７.0.0.1": onlyStrict, "127。0.0.1": onlyStrict, "::ffff:127.0.0.1": onlyStrict,
			"169.254.169.254": linkLocal, "fe80::1%eth0": linkLocal, "::ffff:a9fe:a9fe": linkLocal, "mixed.test": linkLocal,
			"bücher.test": linkLocal, "six.test": metadata, "100.100.100.200": metadata, "0.0.0.0": unspecified, "": unspecified, ".": unspecified,
			"2130706433": misspelt, "0x7f000001": misspelt, "0X7F.1": misspelt, "0177.0.0.1": misspelt, "127.1": misspelt,
			"127.0.0.1:443": misspelt, "::ffff:0x7f.1": misspelt, "0": misspelt, "0x": misspelt, "a.1": misspelt, "a\u2260b.test": misspelt,
			"127.0.0.1\x00.test": misspelt, "a b.test": misspelt, "[a.test": misspelt, "user@a.test": misspelt, "a.test/x": misspelt,
		} {
			if r := outcome(t, d.CheckHost(t.Context(), host)); r != want {
				t.Errorf("%q, loopback permitted %v: %v, want %v", host, loose, r, want)
			}
		}
	}
}

func TestCheckHostRefusesAHostThatIsTooLongToBeOne(t *testing.T) {
	long := strings.Repeat("ü", 100_000) + ".test"
	if r := outcome(t, New(Policy{}).CheckHost(t.Context(), long)); r != misspelt {
		t.Errorf("%v, want %v", r, misspelt)
	}
}

func TestCheckHostEndsWithItsCaller(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := guarded(Policy{}, newDNSServer(t)).CheckHost(ctx, "unknown.test"); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func FuzzNoHostWithAnIPAddressIsReadAsAName(f *testing.F) {
	for _, host := range []string{"127.0.0.1", "[::1]", "0x7f.1", "2130706433", "fe80::1%eth0", "１２７.0.0.1", "a.test", "", "xn--", ".", "[[", "A.b-c."} {
		f.Add(host)
	}
	f.Fuzz(func(t *testing.T, host string) {
		name, a, err := read(host)
		if err != nil {
			return
		}
		if (name == "") != a.IsValid() {
			t.Errorf("%q is read as name %q and address %s", host, name, a)
		}
		if ip := net.ParseIP(host); ip != nil && !ip.Equal(net.ParseIP(a.Unmap().String())) {
			t.Errorf("%q is read as %q or %s", host, name, a)
		}
		if name == "" {
			return
		}
		if again, _, err := read(name); again != name || err != nil {
			t.Errorf("%q is read as %q, and that as %q (%v)", host, name, again, err)
		}
	})
}
