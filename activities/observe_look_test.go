package activities

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/observe"
	"kumodo.io/convoy/internal/render"
	"kumodo.io/convoy/internal/status"
)

func TestAVerdictByOtherHealthChecksCountsAtOnce(t *testing.T) {
	const before, after = "object.status.phase == 'Never'", "object.status.phase == 'Ready'"
	checkedBy := func(current string) *v1alpha1.Release {
		return &v1alpha1.Release{
			Spec: v1alpha1.ReleaseSpec{HealthChecks: []v1alpha1.HealthCheck{{Kind: "Widget", Current: current}}},
			Status: v1alpha1.ReleaseStatus{Conditions: []metav1.Condition{
				{Type: v1alpha1.ConditionHealthy, Status: metav1.ConditionFalse, Message: "what the former checks said"},
			}},
		}
	}
	sick := observe.Report{Objects: 1, Pending: []observe.Finding{{Ref: delivery.ObjectRef{Kind: "Widget", Name: "one"}, Message: "by these checks"}}}
	for name, c := range map[string]struct {
		current string
		report  observe.Report
		want    string
		settles bool
	}{
		"the same checks: a turn has to last": {before, observe.Report{Objects: 1}, "what the former checks said", true},
		"other checks, and all is well":       {after, observe.Report{Objects: 1}, "", false},
		"other checks, and not all is well":   {after, sick, "1 of 1 object not healthy: Widget one: by these checks", false},
	} {
		t.Run(name, func(t *testing.T) {
			o := &observed{}
			for _, r := range []*v1alpha1.Release{checkedBy(before), checkedBy(c.current)} {
				o.compile(r)
				o.release = r
			}
			var seen status.Observation
			settles := o.conclude(render.Content{}, c.report, time.Now(), &seen)
			if seen.Unhealthy != c.want || settles > 0 != c.settles {
				t.Errorf("it says %q and settles in %s", seen.Unhealthy, settles)
			}
		})
	}
}
