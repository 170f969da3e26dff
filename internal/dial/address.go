package dial

import (
	"net/netip"
	"slices"
)

// RefusedError says that convoy does not connect to an address.
type RefusedError struct{ kind string }

// Error names the kind of the address, and the flag of the operator that decides about it when there is one. It is
// the same for each address of the kind.
func (e *RefusedError) Error() string { return "convoy does not connect to " + e.kind }

var (
	unspecified = &RefusedError{"unspecified addresses"}
	linkLocal   = &RefusedError{"link-local addresses"}
	multicast   = &RefusedError{"multicast addresses"}
	broadcast   = &RefusedError{"the broadcast address"}
	metadata    = &RefusedError{"metadata services of clouds"}
	zoned       = &RefusedError{"IPv6 addresses with a zone"}
	misspelt    = &RefusedError{"hosts in unusual spellings"}
	denied      = &RefusedError{"addresses that its operator excludes with --deny-addresses"}
	loopback    = &RefusedError{"loopback addresses unless its operator permits it with --allow-loopback"}
)

var (
	thisNetwork      = netip.MustParsePrefix("0.0.0.0/8") // of which Linux takes 0.0.0.0 for loopback
	broadcastAddress = netip.MustParseAddr("255.255.255.255")

	// metadataServices are those that are not link-local. Clouds document them for their machines.
	metadataServices = []netip.Prefix{
		netip.MustParsePrefix("100.100.100.200/32"),     // Alibaba Cloud
		netip.MustParsePrefix("fd00:100::100:200/128"),  // Alibaba Cloud
		netip.MustParsePrefix("168.63.129.16/32"),       // Azure's wire server
		netip.MustParsePrefix("192.0.0.192/32"),         // Oracle Cloud Classic
		netip.MustParsePrefix("fd00:c1::a9fe:a9fe/128"), // Oracle Cloud
		netip.MustParsePrefix("fd00:ec2::/32"),          // AWS: machines, pods, and what else AWS puts there
		netip.MustParsePrefix("fd20:ce::254/128"),       // Google Cloud
		netip.MustParsePrefix("fd00:a9fe:a9fe::1/128"),  // Akamai
		netip.MustParsePrefix("fd00:42::42/128"),        // Scaleway
	}
)

// judge says why an address is refused, or nil. An IPv6 address that leads to an IPv4 address is refused when that
// one is.
func (p Policy) judge(a netip.Addr) *RefusedError {
	if a.Zone() != "" {
		if r := p.judge(a.WithZone("")); r != nil {
			return r
		}
		return zoned // a zone is a choice of a network card, which is not for users to make
	}
	a = a.Unmap()
	if r := p.judgePlain(a); r != nil {
		return r
	}
	for _, v4 := range within(a) {
		if r := p.judgePlain(v4); r != nil {
			return r
		}
	}
	return nil
}

// judgePlain judges an address by itself.
func (p Policy) judgePlain(a netip.Addr) *RefusedError {
	switch {
	case !a.IsValid(), a.IsUnspecified(), thisNetwork.Contains(a):
		return unspecified
	case a.IsLinkLocalUnicast():
		return linkLocal
	case a.IsMulticast():
		return multicast
	case a == broadcastAddress:
		return broadcast
	case anyContains(metadataServices, a):
		return metadata
	case anyContains(p.Deny, a):
		return denied
	case a.IsLoopback() && !p.AllowLoopback:
		return loopback
	}
	return nil
}

// form is a kind of IPv6 address that leads to an IPv4 address.
type form struct {
	prefix   netip.Prefix
	places   [4]int // of the bytes of the IPv4 address
	inverted bool   // whether their bits are
}

var (
	last4 = [4]int{12, 13, 14, 15}

	forms = []form{
		{prefix: netip.MustParsePrefix("::/96"), places: last4},                     // IPv4-compatible (RFC 4291)
		{prefix: netip.MustParsePrefix("::ffff:0:0:0/96"), places: last4},           // IPv4-translated (RFC 7915)
		{prefix: netip.MustParsePrefix("64:ff9b::/96"), places: last4},              // NAT64 (RFC 6052)
		{prefix: netip.MustParsePrefix("2002::/16"), places: [4]int{2, 3, 4, 5}},    // 6to4 (RFC 3056)
		{prefix: netip.MustParsePrefix("2001::/32"), places: [4]int{4, 5, 6, 7}},    // the server of Teredo (RFC 4380)
		{prefix: netip.MustParsePrefix("2001::/32"), places: last4, inverted: true}, // the client of Teredo
		{prefix: localNAT64, places: [4]int{6, 7, 9, 10}},
		{prefix: localNAT64, places: [4]int{7, 9, 10, 11}},
		{prefix: localNAT64, places: [4]int{9, 10, 11, 12}},
		{prefix: localNAT64, places: last4},
	}

	// localNAT64 holds prefixes of 48, 56, 64 or 96 bits that a network chooses for itself (RFC 8215).
	localNAT64 = netip.MustParsePrefix("64:ff9b:1::/48")
)

// within are the IPv4 addresses that an IPv6 address leads to. Of a network's own NAT64 it cannot be known which form
// is in use, so it gives those of all forms; zeros are then more likely to belong to another form than to an address.
func within(a netip.Addr) []netip.Addr {
	if !a.Is6() || a == netip.IPv6Loopback() {
		return nil
	}
	var found []netip.Addr
	for _, f := range forms {
		if f.prefix.Contains(a) {
			found = append(found, f.read(a))
		}
	}
	if !localNAT64.Contains(a) || !slices.ContainsFunc(found, notZero) {
		return found
	}
	return slices.DeleteFunc(found, thisNetwork.Contains)
}

func notZero(a netip.Addr) bool { return !thisNetwork.Contains(a) }

func (f form) read(a netip.Addr) netip.Addr {
	var v4 [4]byte
	from := a.As16()
	for i, place := range f.places {
		v4[i] = from[place]
		if f.inverted {
			v4[i] = ^v4[i]
		}
	}
	return netip.AddrFrom4(v4)
}

// plain writes prefixes of IPv4 addresses in IPv6 form as what they are, since addresses are unmapped too.
func plain(prefixes []netip.Prefix) []netip.Prefix {
	out := slices.Clone(prefixes)
	for i, p := range out {
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			out[i] = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
	}
	return out
}

func anyContains(prefixes []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}
