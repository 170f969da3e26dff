package dial

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// dnsServer answers on loopback for the names that it is given, and knows no others.
type dnsServer struct {
	conn net.PacketConn

	mu    sync.Mutex
	names map[string][][]netip.Addr // the answers of one look-up after the other, for A and AAAA each; the last one stays
	asked map[string]int
}

func newDNSServer(t *testing.T) *dnsServer {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &dnsServer{conn: conn, names: map[string][][]netip.Addr{}, asked: map[string]int{}}
	var served sync.WaitGroup
	served.Go(s.serve)
	t.Cleanup(func() { _ = conn.Close(); served.Wait() })
	return s
}

// set gives a name its addresses: one list for each look-up.
func (s *dnsServer) set(name string, answers ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names[name+"."] = nil
	for _, answer := range answers {
		var list []netip.Addr
		for text := range strings.FieldsSeq(answer) {
			list = append(list, netip.MustParseAddr(text))
		}
		s.names[name+"."] = append(s.names[name+"."], list)
	}
}

// resolver asks this server, and nobody else.
func (s *dnsServer) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", s.conn.LocalAddr().String())
	}}
}

func (s *dnsServer) serve() {
	buffer := make([]byte, 1500)
	for {
		n, client, err := s.conn.ReadFrom(buffer)
		if err != nil {
			return
		}
		var query dnsmessage.Message
		if query.Unpack(buffer[:n]) != nil || len(query.Questions) != 1 {
			continue
		}
		if reply, err := s.reply(query); err == nil {
			_, _ = s.conn.WriteTo(reply, client)
		}
	}
}

func (s *dnsServer) reply(query dnsmessage.Message) ([]byte, error) {
	q := query.Questions[0]
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: query.ID, Response: true, Authoritative: true, RecursionAvailable: true},
		Questions: query.Questions,
	}
	addresses, known := s.next(q)
	if !known {
		m.RCode = dnsmessage.RCodeNameError
	}
	for _, a := range addresses {
		header := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: dnsmessage.ClassINET}
		switch {
		case a.Is4() && q.Type == dnsmessage.TypeA:
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: a.As4()}})
		case a.Is6() && q.Type == dnsmessage.TypeAAAA:
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: a.As16()}})
		}
	}
	return m.Pack()
}

func (s *dnsServer) next(q dnsmessage.Question) ([]netip.Addr, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answers, known := s.names[q.Name.String()]
	if len(answers) == 0 {
		return nil, known
	}
	key := q.Type.String() + q.Name.String()
	i := min(s.asked[key], len(answers)-1)
	s.asked[key]++
	return answers[i], true
}
