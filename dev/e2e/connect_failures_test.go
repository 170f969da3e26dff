package e2e

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kumodo.io/convoy/api/v1alpha1"
)

// leaking is a body that somebody's server may answer with.
const leaking = "AWS_SECRET=" + stubSentinel

// leakingStatus is the same in the form of Kubernetes.
func leakingStatus(code int) string {
	return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":%q,"reason":%q,"code":%d}`, leaking, leaking, code)
}

// wait is what the throttling stub asks for, in seconds: longer than the first backoff.
const wait = 12

// stubFailure is how a server fails, and a phrase of the message that tells of it. Failures with the same phrase have
// the same message.
type stubFailure struct {
	conduct conduct
	phrase  string
}

// serverFailures are the failures of a server that accepts connections.
func serverFailures(t *testing.T, elsewhere *stub) map[string]stubFailure {
	t.Helper()
	answer := func(code int, body string, headers ...string) conduct {
		return conduct{answer: says(code, body, headers...)}
	}
	certificate := func(change func(*x509.Certificate)) conduct {
		return conduct{certificate: authority(t).sign(t, change), answer: says(http.StatusOK, "{}")}
	}
	const timeout, noAPI = "in time", "Kubernetes API server"
	return map[string]stubFailure{
		"hangs-before-tls":   {conduct{take: (*stub).hold}, timeout},
		"hangs-after-tls":    {conduct{answer: hangs}, timeout},
		"trickles":           {conduct{answer: trickles}, timeout},
		"resets":             {conduct{take: resets}, "closed"},
		"says-401":           {answer(http.StatusUnauthorized, leaking), "HTTP 401"},
		"says-401-status":    {answer(http.StatusUnauthorized, leakingStatus(http.StatusUnauthorized)), "HTTP 401"},
		"says-403":           {answer(http.StatusForbidden, leaking), "HTTP 403"},
		"says-403-status":    {answer(http.StatusForbidden, leakingStatus(http.StatusForbidden)), "HTTP 403"},
		"says-429":           {answer(http.StatusTooManyRequests, leaking, fmt.Sprintf("Retry-After: %d", wait)), "HTTP 429"},
		"says-500":           {answer(http.StatusInternalServerError, leaking), "HTTP 500"},
		"says-503":           {answer(http.StatusServiceUnavailable, leaking), "HTTP 503"},
		"redirects":          {answer(http.StatusFound, leaking, "Location: "+elsewhere.url+"/version?"+leaking), "redirect"},
		"says-html":          {answer(http.StatusOK, "<html><body>"+leaking+"</body></html>", "Content-Type: text/html"), noAPI},
		"says-empty-object":  {answer(http.StatusOK, "{}", "Content-Type: application/json"), noAPI},
		"says-secret":        {answer(http.StatusOK, leaking, "Content-Type: application/json"), noAPI},
		"says-odd-version":   {answer(http.StatusOK, `{"gitVersion":"v1.37 `+leaking+`"}`, "Content-Type: application/json"), noAPI},
		"is-another-name":    {certificate(func(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, []string{"kube.example.test"} }), "another name"},
		"certificate-is-old": {certificate(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }), "expired"},
	}
}

func TestEachFailureOfAProbeHasItsOwnStableMessageAndHarmsNoOtherCluster(t *testing.T) {
	s := newScene(t)
	states := s.recordClusters()
	token := secretToken("failures")
	elsewhere := newStub(t, "127.0.0.1", conduct{answer: says(http.StatusOK, "{}")})
	phrases, stubs := map[string]string{}, map[string]*stub{}
	for name, f := range serverFailures(t, elsewhere) {
		stubs[name], phrases[name] = newStub(t, "127.0.0.1", f.conduct), f.phrase
		s.cluster(name, stubs[name].kubeconfig(t, token))
	}
	for name, f := range s.otherFailures(token) {
		phrases[name] = f.phrase
		s.cluster(name, f.kubeconfig)
	}
	messages := map[string]string{} // phrase -> message
	for name, phrase := range phrases {
		c := s.awaitCluster(name, metav1.ConditionFalse, v1alpha1.ReasonProbeFailed)
		if c.Status.Reachable == nil || *c.Status.Reachable {
			t.Errorf("%s: status.reachable is not false", name)
		}
		m := s.wantMessage(c.Status.Conditions, v1alpha1.ConditionReady, phrase)
		if first, ok := messages[phrase]; ok && first != m {
			t.Errorf("%s: the same failure is told as %q and as %q", name, first, m)
		}
		messages[phrase] = m
		s.wantQuiet(name, m, token)
	}
	for one, m := range messages {
		for other, n := range messages {
			if one != other && m == n {
				t.Errorf("two failures have the message %q", m)
			}
		}
	}
	for name := range phrases {
		s.awaitBackoff(s.clusterWorkflow(name), 3)
		states.wantOnlyHeartbeats(s, name)
		s.wantCounted(name, v1alpha1.ReasonProbeFailed)
	}
	s.wantOneEventEach(slices.Collect(maps.Keys(phrases)))
	s.wantPatience("says-429", stubs["says-429"])
	for _, r := range elsewhere.came() {
		if credentialed(r, token) {
			t.Errorf("the redirect took the token elsewhere: %s %s", r.Method, r.URL.Path)
		}
	}
	if strings.Contains(sharedMetrics(t), stubSentinel) {
		t.Error("the metrics hold what a server answered")
	}
}

// addressed is a failure that the kubeconfig brings about, and a phrase of its message.
type addressed struct {
	kubeconfig []byte
	phrase     string
}

// otherFailures are those for which nobody has to play the server.
func (s *scene) otherFailures(token string) map[string]addressed {
	s.Helper()
	nobody, err := freeAddress()
	s.must(err)
	expired, err := alpha.KubeconfigUntil(time.Now().Add(-time.Hour), "expired-"+s.ns, "system:masters")
	s.must(err)
	ca, err := alpha.CA()
	s.must(err)
	return map[string]addressed{
		"refuses":                 {tokenKubeconfig(s.T, "https://"+nobody, ca, token), "refused"},
		"name-is-unknown":         {tokenKubeconfig(s.T, "https://no..such.name:6443", ca, token), "resolve"}, // no resolver is asked
		"authority-is-unknown":    {tokenKubeconfig(s.T, alpha.Server, authority(s.T).pem, token), "unknown authority"},
		"token-is-unknown":        {tokenKubeconfig(s.T, alpha.Server, ca, token), "HTTP 401"},
		"credentials-are-expired": {expired, "has expired (HTTP 401)"},
	}
}

// wantQuiet fails the test when a message holds anything of the far side.
func (s *scene) wantQuiet(cluster, message, token string) {
	s.Helper()
	for what, text := range map[string]string{"an answer": stubSentinel, "the token": token, "an address": "127.0.0.1", "a name": "such.name", "a URL": "https://"} {
		if strings.Contains(message, text) {
			s.Errorf("%s: the message holds %s: %s", cluster, what, message)
		}
	}
	if len(message) > 160 || strings.ContainsAny(message, "\n\r") {
		s.Errorf("%s: the message is not short: %s", cluster, message)
	}
}

// wantCounted fails the test when the metrics do not tell of a Cluster's probes with that result, and of its failures.
func (s *scene) wantCounted(cluster, result string) {
	s.Helper()
	metrics, labels := sharedMetrics(s.T), fmt.Sprintf("cluster=%q,namespace=%q", cluster, s.ns)
	for _, series := range []string{
		fmt.Sprintf("convoy_cluster_probes_total{%s,result=%q} ", labels, result), fmt.Sprintf("convoy_cluster_probe_consecutive_failures{%s} ", labels),
	} {
		if !strings.Contains(metrics, series) || strings.Contains(metrics, series+"0\n") {
			s.Errorf("there is no metric %s", series)
		}
	}
}

// wantOneEventEach fails the test when not exactly one Event tells of each of the Clusters.
func (s *scene) wantOneEventEach(clusters []string) {
	s.Helper()
	events := strings.Join(s.events(), "\n")
	for _, name := range clusters {
		if n := strings.Count(events, "Cluster "+name+" "); n != 1 {
			s.Errorf("%d Events tell of Cluster %s:\n%s", n, name, events)
		}
	}
}

// wantPatience fails the test when a server that asked for time got more requests than one per attempt, or sooner.
func (s *scene) wantPatience(name string, throttling *stub) {
	s.Helper()
	s.eventually(name+" is left alone", func(context.Context) error {
		p := s.pending(s.clusterWorkflow(name), "ProbeCluster")
		if p.GetNextAttemptScheduleTime() == nil || p.GetLastAttemptCompleteTime() == nil {
			return errors.New("it is being probed")
		}
		pause := p.GetNextAttemptScheduleTime().AsTime().Sub(p.GetLastAttemptCompleteTime().AsTime())
		if pause < wait*time.Second {
			s.Errorf("%s asked for %d seconds and is to get %s", name, wait, pause)
		}
		if n := len(throttling.came()); n > int(p.GetAttempt()) {
			s.Errorf("%s got %d requests in %d attempts", name, n, p.GetAttempt())
		}
		return nil
	})
}

// It runs alone: a probe that hangs ends after 20 seconds, which is not to be for lack of a free processor.
func TestServersThatHangKeepNobodyWaiting(t *testing.T) {
	s := newSerialScene(t)
	hanging := map[string]conduct{"before-tls": {take: (*stub).hold}, "after-tls": {answer: hangs}, "trickling": {answer: trickles}}
	s.secret("good", map[string]string{"kubeconfig": string(alpha.Kubeconfig())})
	for name, c := range hanging {
		for _, name := range []string{name, "edited-" + name} {
			server := newStub(t, "127.0.0.1", c)
			s.cluster(name, server.kubeconfig(t, secretToken("hanging")))
			s.eventually(name+" is being probed", func(context.Context) error {
				if server.taken()+len(server.came()) == 0 {
					return errors.New("nothing came")
				}
				return nil
			})
		}
	}
	s.readyCluster("healthy", alpha)
	for name := range hanging {
		change(s, s.getCluster("edited-"+name), func(c *v1alpha1.Cluster) { c.Spec.Agentless.Auth.Kubeconfig.SecretRef.Name = "good" })
	}
	for name := range hanging {
		s.awaitCluster("edited-"+name, metav1.ConditionTrue, v1alpha1.ReasonReachable)
	}
	for name := range hanging {
		if c := s.getCluster(name); c.Status.Reachable != nil {
			t.Errorf("%s had a verdict before the others were Ready: %s", name, readyMessage(c))
		}
	}
}

func TestAServerThatComesToItsSensesIsReachableAgain(t *testing.T) {
	s := newScene(t)
	states := s.recordClusters()
	ill := newStub(t, "127.0.0.1", conduct{answer: breaksOff})
	s.cluster("prod", ill.kubeconfig(t, secretToken("ill")))
	first := s.awaitCluster("prod", metav1.ConditionFalse, v1alpha1.ReasonProbeFailed)
	s.wantQuiet("prod", s.wantMessage(first.Status.Conditions, v1alpha1.ConditionReady, "closed"), stubSentinel)
	s.awaitBackoff(s.clusterWorkflow("prod"), 2)
	for _, c := range []struct {
		conduct conduct
		phrase  string
	}{{conduct{answer: says(http.StatusBadGateway, leaking)}, "HTTP 502"}, {conduct{take: resets}, "closed"}} {
		ill.become(c.conduct)
		if v := s.reprobe(); v.Reachable || !strings.Contains(v.Message, c.phrase) {
			t.Errorf("the verdict is %+v, not about %q", v, c.phrase)
		}
	}
	ill.become(conduct{answer: forwards(t, alpha, "")})
	if v := s.reprobe(); !v.Reachable {
		t.Errorf("the verdict is %+v", v)
	}
	s.awaitCluster("prod", metav1.ConditionTrue, v1alpha1.ReasonReachable)
	states.wantAlwaysReady(s, "prod")
}
