package e2e

import (
	"context"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// traces takes what a convoy sends by OTLP, and keeps it.
type traces struct {
	server *http.Server
	at     string // its URL

	mu    sync.Mutex
	spans []*tracepb.Span
}

// receiveTraces starts a receiver on loopback, which ends with the process or by stop.
func receiveTraces() (*traces, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	t := &traces{at: "http://" + l.Addr().String()}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", t.receive)
	t.server = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = t.server.Serve(l) }() // it ends with stop
	return t, nil
}

func (t *traces) receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var sent collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &sent)
	}
	if err != nil {
		http.Error(w, "no traces", http.StatusBadRequest)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, from := range sent.GetResourceSpans() {
		for _, scope := range from.GetScopeSpans() {
			t.spans = append(t.spans, scope.GetSpans()...)
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// settings are the environment that has convoy send its traces here, at once.
func (t *traces) settings() []string {
	return []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + t.at, "OTEL_BSP_SCHEDULE_DELAY=200"}
}

// byTrace are the spans of each trace that have come in.
func (t *traces) byTrace() map[string][]*tracepb.Span {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := map[string][]*tracepb.Span{}
	for _, s := range t.spans {
		id := hex.EncodeToString(s.GetTraceId())
		all[id] = append(all[id], s)
	}
	return all
}

func (t *traces) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return t.server.Shutdown(ctx)
}
