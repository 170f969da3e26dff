package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"

	"kumodo.io/convoy/api/v1alpha1"
)

// What a span may say: IDs and names of what is on the hub, and reasons.
var (
	spanKeys  = []string{"temporalWorkflowID", "temporalRunID", "temporalActivityID", "temporalUpdateID", "convoy.namespace", "convoy.name", "convoy.reason"}
	spanClass = regexp.MustCompile(`^[A-Za-z.*]*$`)
)

func TestAChangeIsOneTraceFromTheWatcherToTheTarget(t *testing.T) {
	s := newCalmScene(t)
	s.readyCluster("prod", alpha)
	s.greeting("source", "S3NT1NEL-of-a-source")
	s.greeting("changed", "S3NT1NEL-of-a-source")
	s.release("app", "prod", "source")
	s.awaitDelivered("app")
	change(s, &v1alpha1.Release{ObjectMeta: s.meta("app")}, func(r *v1alpha1.Release) { r.Spec.Source.ConfigMap.Name = "changed" })
	s.awaitDelivered("app")

	// The rollouts of the first delivery and of the change.
	want := []string{
		"Handover:release", "SignalWithStartWorkflow:Release", "HandleSignal:kick", "StartActivity:FetchSource", "RunActivity:FetchSource",
		"RunActivity:CheckCluster", "RunActivity:RenderRelease", "StartChildWorkflow:Rollout", "RunWorkflow:Rollout", "RunActivity:ApplyObjects",
	}
	var whole []*tracepb.Span
	s.eventually("the change is one trace", func(context.Context) error {
		var err error
		if whole, err = s.traceOf("rollout/"+s.ns+"/app/2", want); err != nil {
			return err
		}
		return orphans(whole)
	})
	for _, span := range whole {
		s.checkSpan(span)
	}
	if n := len(whole); n > 40 {
		t.Errorf("the trace of one change has %d spans", n)
	}
	s.checkHeaders(s.releaseWorkflow("app"))
	s.checkHeaders("rollout/" + s.ns + "/app/2")
	s.checkLines()
}

// traceOf is the trace that a rollout is in, which has spans of these names.
func (s *scene) traceOf(rollout string, names []string) ([]*tracepb.Span, error) {
	for _, spans := range calm.traces.byTrace() {
		var has []string
		about := false
		for _, span := range spans {
			has = append(has, span.GetName())
			about = about || span.GetName() == "RunWorkflow:Rollout" && attributeOf(span, "temporalWorkflowID") == rollout
		}
		if !about {
			continue
		}
		for _, name := range names {
			if !slices.Contains(has, name) {
				return nil, fmt.Errorf("the trace of %s has no span %s, but %v", rollout, name, has)
			}
		}
		return spans, nil
	}
	return nil, fmt.Errorf("no trace has %s", rollout)
}

// orphans tells of spans whose parent is not in the trace.
func orphans(spans []*tracepb.Span) error {
	roots := 0
	for _, span := range spans {
		parent := span.GetParentSpanId()
		if len(parent) == 0 {
			roots++
			continue
		}
		if !slices.ContainsFunc(spans, func(o *tracepb.Span) bool { return bytes.Equal(o.GetSpanId(), parent) }) {
			return fmt.Errorf("the parent of %s is not there", span.GetName())
		}
	}
	if roots != 1 {
		return fmt.Errorf("%d spans have no parent", roots)
	}
	return nil
}

func attributeOf(span *tracepb.Span, key string) string {
	for _, a := range span.GetAttributes() {
		if a.GetKey() == key {
			return a.GetValue().GetStringValue()
		}
	}
	return ""
}

func (s *scene) checkSpan(span *tracepb.Span) {
	s.Helper()
	for _, a := range span.GetAttributes() {
		if !slices.Contains(spanKeys, a.GetKey()) || a.GetKey() == "convoy.reason" && !spanClass.MatchString(a.GetValue().GetStringValue()) {
			s.Errorf("span %s has %v", span.GetName(), a)
		}
	}
	if len(span.GetEvents())+len(span.GetLinks()) > 0 || !spanClass.MatchString(span.GetStatus().GetMessage()) {
		s.Errorf("span %s says %v, %v, %v", span.GetName(), span.GetStatus(), span.GetEvents(), span.GetLinks())
	}
}

// checkHeaders looks at what traces leave in a history: the ID of a trace and of a span.
func (s *scene) checkHeaders(workflow string) {
	s.Helper()
	ids := regexp.MustCompile(`^\{"traceparent":"00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]"\}$`)
	events, found := s.temporal.GetWorkflowHistory(s.ctx, workflow, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT), 0
	for events.HasNext() {
		event, err := events.Next()
		s.must(err)
		for _, header := range []*commonpb.Header{
			event.GetWorkflowExecutionStartedEventAttributes().GetHeader(), event.GetWorkflowExecutionSignaledEventAttributes().GetHeader(),
			event.GetActivityTaskScheduledEventAttributes().GetHeader(), event.GetStartChildWorkflowExecutionInitiatedEventAttributes().GetHeader(),
		} {
			for key, value := range header.GetFields() {
				found++
				if key != "_tracer-data" || !ids.Match(value.GetData()) {
					s.Errorf("%s has in event %d the header %s: %s", workflow, event.GetEventId(), key, value.GetData())
				}
			}
		}
	}
	if found == 0 {
		s.Errorf("%s has no header", workflow)
	}
}

// checkLines looks at the lines of the log that are about the scene: each names the object and the workflow, and those of
// workflows and steps the run and the trace.
func (s *scene) checkLines() {
	s.Helper()
	log, err := os.ReadFile(s.convoy.log)
	s.must(err)
	said := map[string]bool{}
	for text := range strings.Lines(string(log)) {
		if !strings.Contains(text, s.ns) {
			continue
		}
		var line map[string]any
		s.must(json.Unmarshal([]byte(text), &line))
		level, _ := line["level"].(string)
		debug := strings.HasPrefix(level, "DEBUG")
		if debug && line["workflowID"] == nil {
			continue // of libraries, such as those about Events and connections
		}
		needs := []string{"kind", "namespace", "name", "workflowID"}
		if line["activityType"] != nil || line["workflowType"] != nil {
			needs = append(needs, "runID")
			if !debug { // the SDK's own lines about each command of a workflow know of no trace
				needs = append(needs, "traceID")
			}
		}
		for _, key := range needs {
			if value, _ := line[key].(string); value == "" {
				s.Errorf("a line has no %s: %s", key, text)
			}
		}
		if line["namespace"] != s.ns {
			s.Errorf("a line is about another namespace: %s", text)
		}
		if message, _ := line["msg"].(string); line["runID"] != nil {
			said[message+" "+fmt.Sprint(line["kind"])] = true
		}
	}
	for _, want := range []string{"handed over Cluster", "handed over Release", "the rollout has ended Release"} {
		if !said[want] {
			s.Errorf("no line says %q, but %v do", want, said)
		}
	}
}
