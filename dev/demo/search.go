package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/proto"
	"k8s.io/client-go/tools/clientcmd"

	"kumodo.io/convoy/dev/env"
)

// searchTemporal reads everything that Temporal holds of convoy's workflows and checks that nothing of the target's
// kubeconfig is in it.
func (d *demo) searchTemporal(ctx context.Context) error {
	secrets, err := fragments(d.target0().Kubeconfig(), d.target0().Server)
	if err != nil {
		return err
	}
	workflows, events := 0, 0
	var page []byte
	for first := true; first || len(page) > 0; first = false {
		list, err := d.temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Namespace: env.Namespace, NextPageToken: page})
		if err != nil {
			return fmt.Errorf("list the workflows: %w", err)
		}
		for _, w := range list.GetExecutions() {
			n, err := d.searchWorkflow(ctx, w, secrets)
			if err != nil {
				return err
			}
			workflows, events = workflows+1, events+n
		}
		page = list.GetNextPageToken()
	}
	if workflows == 0 {
		return errors.New("temporal lists no workflow")
	}
	d.out.detail("%d events of %d workflows hold none of %d fragments of the kubeconfig", events, workflows, len(secrets))
	return nil
}

// searchWorkflow reads one run of a workflow and returns how many events it has.
func (d *demo) searchWorkflow(ctx context.Context, w *workflowpb.WorkflowExecutionInfo, secrets [][]byte) (events int, err error) {
	id, run := w.GetExecution().GetWorkflowId(), w.GetExecution().GetRunId()
	described, err := d.temporal.DescribeWorkflow(ctx, id, run)
	if err != nil {
		return 0, fmt.Errorf("describe %s: %w", id, err)
	}
	if err := search(described.RawResponse, secrets); err != nil {
		return 0, fmt.Errorf("the description of workflow %s: %w", id, err)
	}
	history := d.temporal.GetWorkflowHistory(ctx, id, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for history.HasNext() {
		event, err := history.Next()
		if err != nil {
			return 0, fmt.Errorf("read the history of %s: %w", id, err)
		}
		if err := search(event, secrets); err != nil {
			return 0, fmt.Errorf("event %d (%s) of workflow %s: %w", event.GetEventId(), event.GetEventType(), id, err)
		}
		events++
	}
	return events, nil
}

// search looks for fragments in a message of Temporal; strings and payloads stand in its encoding as they are.
func search(m proto.Message, secrets [][]byte) error {
	encoded, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	for i, secret := range secrets {
		if bytes.Contains(encoded, secret) {
			return fmt.Errorf("it holds fragment %d of the kubeconfig", i) // and not the fragment itself
		}
	}
	return nil
}

// fragments are pieces of a kubeconfig, each long enough not to stand elsewhere by chance: host and port, and the lines
// of certificates and key, as PEM and as the kubeconfig encodes them.
func fragments(kubeconfig []byte, server string) ([][]byte, error) {
	const line = 60
	config, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	found := [][]byte{[]byte(strings.TrimPrefix(server, "https://")), []byte("-----BEGIN")}
	add := func(pem []byte) {
		for l := range bytes.Lines(pem) {
			if l = bytes.TrimSpace(l); len(l) >= line {
				found = append(found, l)
			}
		}
		encoded := []byte(base64.StdEncoding.EncodeToString(pem))
		for ; len(encoded) >= line; encoded = encoded[line:] {
			found = append(found, encoded[:line])
		}
	}
	add(kubeconfig) // as the Secret holds it, and as JSON encodes that
	for _, c := range config.Clusters {
		add(c.CertificateAuthorityData)
	}
	for _, a := range config.AuthInfos {
		add(a.ClientCertificateData)
		add(a.ClientKeyData)
	}
	return found, nil
}
