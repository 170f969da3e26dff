package connect

import (
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/openapi"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/dial"
)

func TestAnAddressThatIsRefusedIsNeverDialled(t *testing.T) {
	s, ca := stub(t, func(http.ResponseWriter, *http.Request) { t.Error("the server was reached") })
	proxy, connected := connectProxy(t, s.Listener.Addr().String())
	for name, tc := range map[string]struct {
		server, more string
		policy       dial.Policy
		want         string
	}{
		"loopback":              {s.URL, "", dial.Policy{}, "loopback"},
		"metadata":              {"https://169.254.169.254", "", dial.Policy{AllowLoopback: true}, "link-local"},
		"IPv6 link-local":       {"https://[fe80::1]:6443", "", dial.Policy{AllowLoopback: true}, "link-local"},
		"unspecified":           {"https://0.0.0.0:6443", "", dial.Policy{AllowLoopback: true}, "unspecified"},
		"a proxy":               {"https://kube.example.test", "proxy-url: 'http://169.254.1.1:3128'", dial.Policy{AllowLoopback: true}, "link-local"},
		"metadata behind one":   {"https://169.254.169.254", "proxy-url: '" + proxy + "'", dial.Policy{AllowLoopback: true}, "link-local"},
		"metadata behind SOCKS": {"https://169.254.169.254", "proxy-url: 'socks5://" + strings.TrimPrefix(proxy, "http://") + "'", dial.Policy{AllowLoopback: true}, "link-local"},
	} {
		h := &hub{}
		h.put("s", "1", "value", kubeconfigFor(tc.server, ca, "{token: t0k}"))
		if tc.more != "" {
			h.put("s", "1", "value", kubeconfigFor(tc.server, ca, "{token: t0k}", tc.more))
		}
		p := NewPool(h, dial.New(tc.policy), Options{AllowProxyURL: true})
		t.Cleanup(p.Close)
		c, err := p.Client(t.Context(), cluster("u", ""))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		_, err = c.Probe(t.Context(), &v1alpha1.Cluster{})
		f := Classify(err)
		if f == nil || !strings.Contains(f.Message, tc.want) || f.Terminal || !Unreachable(err) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if strings.ContainsAny(f.Message, "0123456789") {
			t.Errorf("%s: an address is in %q", name, f.Message)
		}
		_, err = c.Dynamic.Resource(configMaps).Namespace("d").Get(t.Context(), "x", metav1.GetOptions{})
		if classOf(err) != refusedAddress {
			t.Errorf("%s: a read: %v", name, err)
		}
	}
	if n := connected.Load(); n != 0 {
		t.Errorf("the proxy was asked %d times for an address that is refused", n)
	}
}

func TestTheSchemasOfATargetAreReadOnce(t *testing.T) {
	p, cluster := realPool(t)
	c, err := p.Client(t.Context(), cluster)
	if err != nil {
		t.Fatal(err)
	}
	read := func() openapi.GroupVersion {
		t.Helper()
		paths, err := c.Discovery.OpenAPIV3().Paths()
		if err != nil {
			t.Fatal(err)
		}
		return paths["apis/apps/v1"]
	}
	first := read()
	if _, err := first.Schema("application/json"); err != nil {
		t.Fatal(err)
	}
	if read() != first {
		t.Error("the schemas were read again")
	}
	c.Mapper.Reset()
	if read() == first {
		t.Error("new discovery kept the old schemas")
	}
}

func TestCredentialsThatAreNotAcceptedAnyMoreEvictTheClient(t *testing.T) {
	s, ca := stub(t, always(401, "text/plain", "no"))
	h := &hub{}
	h.put("s", "1", "value", kubeconfigFor(s.URL, ca, "{token: t0k}"))
	p := newPool(t, h, Options{})
	c, err := p.Client(t.Context(), cluster("u", ""))
	if err != nil {
		t.Fatal(err)
	}
	if got := testutil.ToFloat64(gauge(p)); got != 1 {
		t.Errorf("the pool holds %v clients, want 1", got)
	}
	if _, err := c.Probe(t.Context(), &v1alpha1.Cluster{}); err == nil {
		t.Fatal("the probe succeeded")
	}
	<-c.Done()
	if got := testutil.ToFloat64(gauge(p)); got != 0 {
		t.Errorf("the pool holds %v clients, want none", got)
	}
	if got := testutil.ToFloat64(p.metrics.evictions.WithLabelValues(evictedUnauthorized)); got != 1 {
		t.Errorf("%v evictions are counted, want 1", got)
	}
	if problems, err := testutil.CollectAndLint(p); err != nil || len(problems) > 0 {
		t.Errorf("metrics: %v %v", problems, err)
	}
}

func TestAnIdleClientIsEvictedAndABusyOneIsNot(t *testing.T) {
	answer := make(chan struct{})
	s, ca := stub(t, func(w http.ResponseWriter, r *http.Request) {
		<-answer
		always(http.StatusOK, "application/json", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}`)(w, r)
	})
	h := &hub{}
	h.put("s", "1", "value", kubeconfigFor(s.URL, ca, "{}"))
	p := newPool(t, h, Options{})
	c, err := p.Client(t.Context(), cluster("u", ""))
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error)
	go func() {
		_, err := c.Dynamic.Resource(configMaps).Namespace("d").Get(t.Context(), "x", metav1.GetOptions{})
		got <- err
	}()
	eventually(t, "the request is under way", c.link.busy)
	p.retire(place{cluster: "u"}, c)
	if testutil.ToFloat64(gauge(p)) != 1 {
		t.Error("a client with a request under way was evicted")
	}
	close(answer)
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	eventually(t, "the request has ended", func() bool { return !c.link.busy() })
	p.retire(place{cluster: "u"}, c)
	<-c.Done()
	if testutil.ToFloat64(gauge(p)) != 0 {
		t.Error("an idle client is still in the pool")
	}
}

// gauge is the pool's metric of its size alone.
func gauge(p *Pool) prometheus.Collector { return sizeOnly{p} }

type sizeOnly struct{ *Pool }

func (s sizeOnly) Describe(to chan<- *prometheus.Desc) { to <- s.metrics.size }

func (s sizeOnly) Collect(to chan<- prometheus.Metric) {
	all := make(chan prometheus.Metric, 16)
	s.Pool.Collect(all)
	to <- <-all
}
