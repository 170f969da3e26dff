package connect

import (
	"net"
	"net/http"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestListsAreCompressedAndWatchesAreNot(t *testing.T) {
	var mu sync.Mutex
	accepts := map[bool]string{} // by whether it is a watch
	server, ca := stub(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		accepts[watching(r)] = r.Header.Get("Accept-Encoding")
		mu.Unlock()
		always(http.StatusOK, "application/json", `{"apiVersion":"v1","kind":"ConfigMapList","metadata":{"resourceVersion":"1"},"items":[]}`)(w, r)
	})
	maps := clientOf(t, kubeconfigFor(server.URL, ca, "{token: t}"), Options{}).Dynamic.Resource(configMaps).Namespace("d")
	if _, err := maps.List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	watch, err := maps.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	watch.Stop()
	mu.Lock()
	defer mu.Unlock()
	if accepts[false] != "gzip" || accepts[true] != "identity" {
		t.Errorf("a list accepts %q, a watch %q", accepts[false], accepts[true])
	}
}

func TestAWatchThatCannotBeginIsAnError(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	_, ca := stub(t, nil)
	pods := clientOf(t, kubeconfigFor("https://"+l.Addr().String(), ca, "{token: t}"), Options{}).Dynamic.Resource(configMaps).Namespace("d")
	if _, err := pods.Watch(t.Context(), metav1.ListOptions{}); !NoAnswer(err) {
		t.Errorf("a server that closes each connection: %v", err)
	}
}
