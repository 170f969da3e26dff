package observe

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestHealthIsJudgedByWhatControllersSay(t *testing.T) {
	tests := map[string]struct {
		object string
		want   Verdict
		final  bool
	}{
		"a ConfigMap":                            {`{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}`, Current, false},
		"a custom resource without a status":     {`{apiVersion: a.test/v1, kind: W, metadata: {name: x, generation: 1}}`, Current, false},
		"one whose controller lags":              {`{apiVersion: a.test/v1, kind: W, metadata: {name: x, generation: 2}, status: {observedGeneration: 1, conditions: [{type: Ready, status: "True"}]}}`, InProgress, false},
		"one whose Ready is of before":           {`{apiVersion: a.test/v1, kind: W, metadata: {name: x, generation: 2}, status: {conditions: [{type: Ready, status: "True", observedGeneration: 1}]}}`, InProgress, false},
		"one whose Ready is of now":              {`{apiVersion: a.test/v1, kind: W, metadata: {name: x, generation: 2}, status: {conditions: [{type: Ready, status: "True", observedGeneration: 2}]}}`, Current, false},
		"one that is not ready":                  {`{apiVersion: a.test/v1, kind: W, metadata: {name: x}, status: {conditions: [{type: Ready, status: "False"}]}}`, InProgress, false},
		"one that is stalled":                    {`{apiVersion: a.test/v1, kind: W, metadata: {name: x}, status: {conditions: [{type: Stalled, status: "True", message: stuck}]}}`, Failed, false},
		"one whose status makes no sense":        {`{apiVersion: a.test/v1, kind: W, metadata: {name: x}, status: {conditions: 7}}`, InProgress, false},
		"one that is being deleted":              {`{apiVersion: v1, kind: ConfigMap, metadata: {name: x, deletionTimestamp: "2024-01-01T00:00:00Z"}}`, Terminating, false},
		"a Deployment that nobody has seen":      {`{apiVersion: apps/v1, kind: Deployment, metadata: {name: x, generation: 1}, spec: {replicas: 1}}`, InProgress, false},
		"a paused Deployment":                    {`{apiVersion: apps/v1, kind: Deployment, metadata: {name: x, generation: 2}, spec: {paused: true, replicas: 1}, status: {observedGeneration: 2}}`, Suspended, false},
		"a Deployment of no replicas":            {`{apiVersion: apps/v1, kind: Deployment, metadata: {name: x, generation: 2}, spec: {replicas: 0}, status: {observedGeneration: 2}}`, Current, false},
		"a Deployment that scales down to none":  {`{apiVersion: apps/v1, kind: Deployment, metadata: {name: x, generation: 2}, spec: {replicas: 0}, status: {observedGeneration: 2, replicas: 1}}`, InProgress, false},
		"a Deployment that has given up":         {`{apiVersion: apps/v1, kind: Deployment, metadata: {name: x, generation: 2}, spec: {replicas: 1}, status: {observedGeneration: 2, conditions: [{type: Progressing, status: "False", reason: ProgressDeadlineExceeded}]}}`, Failed, true},
		"a Deployment that gave up before":       {`{apiVersion: apps/v1, kind: Deployment, metadata: {name: x, generation: 3}, spec: {replicas: 1}, status: {observedGeneration: 2, conditions: [{type: Progressing, status: "False", reason: ProgressDeadlineExceeded}]}}`, InProgress, false},
		"a StatefulSet of no replicas":           {`{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: x, generation: 1}, spec: {replicas: 0}, status: {observedGeneration: 1, currentRevision: a, updateRevision: b}}`, Current, false},
		"a suspended CronJob":                    {`{apiVersion: batch/v1, kind: CronJob, metadata: {name: x}, spec: {suspend: true}}`, Suspended, false},
		"a suspended Job":                        {`{apiVersion: batch/v1, kind: Job, metadata: {name: x}, spec: {suspend: true}}`, Suspended, false},
		"a Job that runs":                        {`{apiVersion: batch/v1, kind: Job, metadata: {name: x}, status: {startTime: "2024-01-01T00:00:00Z", active: 1}}`, InProgress, false},
		"a Job that has completed":               {`{apiVersion: batch/v1, kind: Job, metadata: {name: x}, spec: {suspend: true}, status: {conditions: [{type: Complete, status: "True"}]}}`, Current, false},
		"a Job that failed":                      {`{apiVersion: batch/v1, kind: Job, metadata: {name: x}, status: {conditions: [{type: Failed, status: "True"}]}}`, Failed, true},
		"a Pod that failed":                      {`{apiVersion: v1, kind: Pod, metadata: {name: x}, status: {phase: Failed}}`, Failed, true},
		"a Pod that succeeded":                   {`{apiVersion: v1, kind: Pod, metadata: {name: x}, status: {phase: Succeeded}}`, Current, false},
		"a Pod with a status of a strange shape": {`{apiVersion: v1, kind: Pod, metadata: {name: x}, status: {phase: Running, containerStatuses: [7]}}`, InProgress, false},
		"a claim that is not bound":              {`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: x}, status: {phase: Pending}}`, InProgress, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			o := fromYAML(t, tc.object)
			got, message := Health(o)
			if got != tc.want || Final(o) != tc.final {
				t.Errorf("got %s (%s), final %v; want %s, final %v", got, message, Final(o), tc.want, tc.final)
			}
			if message == "" && got != InProgress {
				t.Error("there is no message")
			}
		})
	}
}

func TestSuspendedObjectsAreNotWaitedFor(t *testing.T) {
	for verdict, want := range map[Verdict]bool{Current: true, Suspended: true, InProgress: false, Failed: false, Terminating: false} {
		if verdict.Healthy() != want {
			t.Errorf("%s", verdict)
		}
	}
}

func FuzzHealthHasAVerdictForEveryStatus(f *testing.F) {
	f.Add("apps/v1", "Deployment", `{"replicas":"x","conditions":[{"type":1}]}`)
	f.Add("v1", "Pod", `{"phase":"Running","containerStatuses":[{"name":1}],"conditions":[]}`)
	f.Add("batch/v1", "Job", `{"conditions":[null]}`)
	f.Add("a.test/v1", "W", `{"conditions":[{"type":"Stalled","status":"True","message":"a\nb"}]}`)
	f.Fuzz(func(t *testing.T, apiVersion, kind, status string) {
		var value any
		if json.Unmarshal([]byte(status), &value) != nil {
			return
		}
		o := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": "x", "generation": int64(1)},
			"spec": map[string]any{"replicas": int64(1)}, "status": value,
		}}
		verdict, message := Health(o)
		if verdict == "" || len(message) > longestMessage || !utf8.ValidString(message) || strings.ContainsAny(message, "\r\n") {
			t.Errorf("%q %q", verdict, message)
		}
		Final(o)
	})
}
