package dial

import (
	"encoding/binary"
	"net"
	"net/netip"
	"testing"
)

func TestEachKindOfAddressIsJudged(t *testing.T) {
	deny := []netip.Prefix{
		netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("2001:db8:1::/48"),
		netip.MustParsePrefix("::ffff:10.2.0.0/112"), netip.MustParsePrefix("127.9.0.0/16"),
	}
	for want, addresses := range map[*RefusedError][]string{
		nil: {
			"192.0.2.1", "8.8.8.8", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "100.100.100.201",
			"169.253.255.255", "169.255.0.0", "126.255.255.255", "128.0.0.0", "1.0.0.0", "223.255.255.255", "255.255.255.254",
			"2001:db8::1", "fd00::1", "fc00::1", "fd00:ec3::254", "fe7f::1", "fec0::1", "2606:4700::1111", "fd20:ce::253",
			"::ffff:8.8.8.8", "::8.8.8.8", "64:ff9b::8.8.8.8", "64:ff9b:1::8.8.8.8", "64:ff9b:1:808:8:800::", "64:ff9b:1:8:8:808::",
			"64:ff9b:1:0:8:808:800:0", "2002:808:808::1", "2001:0:808:808:0:ffff:f7f7:f7f7", "::ffff:0:8.8.8.8",
		},
		unspecified: {
			"0.0.0.0", "0.0.0.1", "0.255.255.255", "::", "::ffff:0.0.0.0", "::2", "::0.1.2.3", "64:ff9b::", "64:ff9b:1::",
			"64:ff9b:1::0.1.2.3", "2002::1", "::ffff:0:0.0.0.0",
		},
		linkLocal: {
			"169.254.0.0", "169.254.169.254", "169.254.170.2", "169.254.255.255", "fe80::1", "fe80::a9fe:a9fe", "febf::1", "fe80::1%eth0",
			"::ffff:169.254.169.254", "::ffff:a9fe:a9fe", "::169.254.169.254", "::a9fe:a9fe", "::ffff:0:a9fe:a9fe",
			"64:ff9b::a9fe:a9fe", "64:ff9b:1::a9fe:a9fe", "64:ff9b:1:a9fe:a9:fe00::", "64:ff9b:1:a9:fe:a9fe::", "64:ff9b:1:0:a9:fea9:fe00:0",
			"2002:a9fe:a9fe::1", "2001:0:a9fe:a9fe::1", "2001:0:808:808:0:ffff:5601:5601",
		},
		multicast: {
			"224.0.0.1", "239.255.255.255", "ff01::1", "ff02::1", "ff05::1", "ff0e::1", "ffff::", "::ffff:224.0.0.251", "64:ff9b::e000:1",
			"2002:e000:1::1", "ff02::1%eth0",
		},
		broadcast: {"255.255.255.255", "::ffff:255.255.255.255", "::255.255.255.255", "64:ff9b::ffff:ffff", "2002:ffff:ffff::"},
		metadata: {
			"100.100.100.200", "fd00:100::100:200", "168.63.129.16", "192.0.0.192", "fd00:c1::a9fe:a9fe", "fd00:ec2::254", "fd00:ec2::23",
			"fd20:ce::254", "fd00:a9fe:a9fe::1", "fd00:42::42", "::ffff:100.100.100.200", "::168.63.129.16", "64:ff9b::6464:64c8",
			"64:ff9b:1::a83f:8110", "2002:6464:64c8::",
		},
		loopback: {
			"127.0.0.1", "127.0.0.0", "127.255.255.255", "::1", "::ffff:127.0.0.1", "::127.0.0.1", "::7f00:1", "::ffff:0:127.0.0.1",
			"64:ff9b::7f00:1", "64:ff9b:1::7f00:1", "2002:7f00:1::1", "2001:0:808:808:0:ffff:80ff:fffe", "::1%lo",
		},
		denied: {
			"10.1.0.0", "10.1.255.255", "10.2.0.1", "2001:db8:1::1", "127.9.0.1", "::ffff:10.1.0.1", "::10.1.0.1", "64:ff9b::10.2.0.1",
			"64:ff9b:1::10.1.0.1", "2002:a01:1::1",
		},
		zoned: {"fd00::1%eth0", "2001:db8::1%1"},
	} {
		for _, text := range addresses {
			a := netip.MustParseAddr(text)
			strict := New(Policy{Deny: deny}).policy
			if got := strict.judge(a); got != want {
				t.Errorf("%s: %v, want %v", text, got, want)
			}
			permitted := want
			switch {
			case want == loopback && a.Zone() != "":
				permitted = zoned
			case want == loopback:
				permitted = nil
			}
			loose := New(Policy{Deny: deny, AllowLoopback: true}).policy
			if got := loose.judge(a); got != permitted {
				t.Errorf("%s with loopback permitted: %v, want %v", text, got, permitted)
			}
		}
	}
	if got := (Policy{AllowLoopback: true}).judge(netip.Addr{}); got != unspecified {
		t.Errorf("no address: %v, want %v", got, unspecified)
	}
}

func TestAMessageHoldsNoAddressAndNamesTheFlag(t *testing.T) {
	for r, want := range map[*RefusedError]string{
		unspecified: "convoy does not connect to unspecified addresses",
		linkLocal:   "convoy does not connect to link-local addresses",
		multicast:   "convoy does not connect to multicast addresses",
		broadcast:   "convoy does not connect to the broadcast address",
		metadata:    "convoy does not connect to metadata services of clouds",
		zoned:       "convoy does not connect to IPv6 addresses with a zone",
		misspelt:    "convoy does not connect to hosts in unusual spellings",
		denied:      "convoy does not connect to addresses that its operator excludes with --deny-addresses",
		loopback:    "convoy does not connect to loopback addresses unless its operator permits it with --allow-loopback",
	} {
		if r.Error() != want {
			t.Errorf("message %q, want %q", r.Error(), want)
		}
	}
}

// neverConnected says what is refused always, in other words than the code under test: with package net's.
func neverConnected(ip net.IP) bool {
	if ip.IsUnspecified() || ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsInterfaceLocalMulticast() || ip.IsLinkLocalMulticast() {
		return true
	}
	if v4 := ip.To4(); v4 != nil && (v4[0] == 0 || v4.Equal(net.IPv4bcast)) {
		return true
	}
	for _, service := range []string{
		"100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254",
		"fd00:c1::a9fe:a9fe", "fd00:42::42", "fd00:a9fe:a9fe::1", "fd00:100::100:200",
	} {
		if ip.Equal(net.ParseIP(service)) {
			return true
		}
	}
	return false
}

// embeddings writes an IPv4 address in each IPv6 form, with filler where the form leaves room.
func embeddings(v4 [4]byte, filler [16]byte) map[string]netip.Addr {
	write := func(prefix string, flip byte, places ...int) netip.Addr {
		p := netip.MustParsePrefix(prefix)
		a, fixed := filler, p.Addr().As16()
		copy(a[:p.Bits()/8], fixed[:])
		for i, place := range places {
			a[place] = v4[i] ^ flip
		}
		return netip.AddrFrom16(a)
	}
	all := map[string]netip.Addr{
		"itself":          netip.AddrFrom4(v4),
		"mapped":          write("::ffff:0:0/96", 0, 12, 13, 14, 15),
		"compatible":      write("::/96", 0, 12, 13, 14, 15),
		"translated":      write("::ffff:0:0:0/96", 0, 12, 13, 14, 15),
		"NAT64":           write("64:ff9b::/96", 0, 12, 13, 14, 15),
		"6to4":            write("2002::/16", 0, 2, 3, 4, 5),
		"Teredo's server": write("2001::/32", 0, 4, 5, 6, 7),
		"Teredo's client": write("2001::/32", 0xff, 12, 13, 14, 15),
	}
	if v4[0] == 0 { // is not told from the zeros of another form
		all["local NAT64"] = netip.MustParseAddr("64:ff9b:1::")
		return all
	}
	all["local NAT64, 96 bits"] = write("64:ff9b:1::/48", 0, 12, 13, 14, 15)
	all["local NAT64, 64 bits"] = write("64:ff9b:1::/48", 0, 9, 10, 11, 12)
	all["local NAT64, 56 bits"] = write("64:ff9b:1::/48", 0, 7, 9, 10, 11)
	all["local NAT64, 48 bits"] = write("64:ff9b:1::/48", 0, 6, 7, 9, 10)
	return all
}

func FuzzNoEmbeddingHidesARefusedAddress(f *testing.F) {
	for _, text := range []string{
		"169.254.169.254", "127.0.0.1", "0.0.0.0", "0.0.0.1", "255.255.255.255", "224.0.0.1", "100.100.100.200", "8.8.8.8", "10.0.0.1", "192.0.0.192",
	} {
		v4 := netip.MustParseAddr(text).As4()
		f.Add(binary.BigEndian.Uint32(v4[:]), []byte{})
		f.Add(binary.BigEndian.Uint32(v4[:]), []byte("some sixteen byte"))
	}
	f.Fuzz(func(t *testing.T, n uint32, fill []byte) {
		var v4 [4]byte
		var filler [16]byte
		binary.BigEndian.PutUint32(v4[:], n)
		copy(filler[:], fill)
		ip := net.IP(v4[:])
		strict, loose := Policy{}, Policy{AllowLoopback: true}
		for name, a := range embeddings(v4, filler) {
			isLoopback := a == netip.IPv6Loopback()
			if neverConnected(ip) && !isLoopback && (strict.judge(a) == nil || loose.judge(a) == nil) {
				t.Errorf("%s of %s passes: %s", name, ip, a)
			}
			if (ip.IsLoopback() || isLoopback) && strict.judge(a) == nil {
				t.Errorf("%s of loopback %s passes: %s", name, ip, a)
			}
		}
		refused := neverConnected(ip)
		if got := loose.judge(netip.AddrFrom4(v4)); (got != nil) != refused {
			t.Errorf("%s: %v, refused: %v", ip, got, refused)
		}
	})
}

func FuzzNoRefusedIPv6AddressPasses(f *testing.F) {
	for _, text := range []string{
		"::", "::1", "fe80::1", "ff02::1", "fd00:ec2::254", "fd00:42::42", "2001:db8::1", "2002::", "64:ff9b:1::", "::ffff:0:0",
	} {
		b := netip.MustParseAddr(text).As16()
		f.Add(b[:], "")
		f.Add(b[:], "eth0")
	}
	f.Fuzz(func(t *testing.T, raw []byte, zone string) {
		var b [16]byte
		copy(b[:], raw)
		a := netip.AddrFrom16(b).WithZone(zone)
		r := Policy{AllowLoopback: true}.judge(a)
		if r == nil && (a.Zone() != "" || neverConnected(net.IP(b[:]))) {
			t.Errorf("%s passes", a)
		}
		if (Policy{}).judge(a) == nil && (r != nil || net.IP(b[:]).IsLoopback()) {
			t.Errorf("%s passes without --allow-loopback", a)
		}
		if (Policy{Deny: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom16(b).Unmap(), netip.AddrFrom16(b).Unmap().BitLen())}}).judge(a) == nil {
			t.Errorf("%s passes although it is excluded", a)
		}
	})
}
