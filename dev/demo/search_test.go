package main

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	commonpb "go.temporal.io/api/common/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	"google.golang.org/protobuf/proto"
)

// pemOf is a block of PEM whose lines are as long as those of real ones.
func pemOf(kind, letter string) string {
	return "-----BEGIN " + kind + "-----\n" + strings.Repeat(letter, 64) + "\n" + strings.Repeat(letter, 20) + "\n-----END " + kind + "-----\n"
}

func kubeconfigOf(ca, cert, key string) []byte {
	encode := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	return []byte(`apiVersion: v1
kind: Config
current-context: x
contexts: [{name: x, context: {cluster: x, user: x}}]
clusters: [{name: x, cluster: {server: "https://127.0.0.1:20001", certificate-authority-data: "` + encode(ca) + `"}}]
users: [{name: x, user: {client-certificate-data: "` + encode(cert) + `", client-key-data: "` + encode(key) + `"}}]
`)
}

// scheduled is an event whose input is a payload with that JSON.
func scheduled(t *testing.T, input any) proto.Message {
	t.Helper()
	data, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	return &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_ActivityTaskScheduledEventAttributes{
		ActivityTaskScheduledEventAttributes: &historypb.ActivityTaskScheduledEventAttributes{
			Input: &commonpb.Payloads{Payloads: []*commonpb.Payload{{Data: data}}},
		},
	}}
}

func TestTheSearchFindsAKubeconfigHoweverItStandsInTemporal(t *testing.T) {
	key := pemOf("EC PRIVATE KEY", "k")
	kubeconfig := kubeconfigOf(pemOf("CERTIFICATE", "a"), pemOf("CERTIFICATE", "c"), key)
	secrets, err := fragments(kubeconfig, "https://127.0.0.1:20001")
	if err != nil {
		t.Fatal(err)
	}
	for name, message := range map[string]proto.Message{
		"the text in an input":          scheduled(t, string(kubeconfig)),
		"the bytes in an input":         scheduled(t, map[string][]byte{"kubeconfig": kubeconfig}),
		"the key in an input":           scheduled(t, map[string]string{"key": key}),
		"the encoded key in an input":   scheduled(t, base64.StdEncoding.EncodeToString([]byte(key))),
		"a line of the key in an input": scheduled(t, strings.Repeat("k", 64)),
		"the server in a failure":       &failurepb.Failure{Message: "dial tcp 127.0.0.1:20001: connection refused"},
	} {
		if search(message, secrets) == nil {
			t.Errorf("%s is not found", name)
		}
	}
	if err := search(scheduled(t, map[string]string{"name": "convoy-managed", "reason": "Reachable"}), secrets); err != nil {
		t.Errorf("an event without any of it: %v", err)
	}
}

func TestWhatTheSearchSaysDoesNotHoldTheSecret(t *testing.T) {
	err := search(&failurepb.Failure{Message: "token 1234"}, [][]byte{[]byte("1234")})
	if err == nil || strings.Contains(err.Error(), "1234") {
		t.Errorf("the error is %v", err)
	}
}
