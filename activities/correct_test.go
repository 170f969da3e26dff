package activities

import (
	"testing"

	"kumodo.io/convoy/api/v1alpha1"
)

func TestACorrectionIsToldWithItsObjectsAndHowOftenItWasTried(t *testing.T) {
	drifted := func(names ...string) (out []v1alpha1.DriftedObject) {
		for _, name := range names {
			out = append(out, v1alpha1.DriftedObject{Kind: "ConfigMap", Namespace: "shop", Name: name})
		}
		return out
	}
	tried := func(name string, times int32) *v1alpha1.DriftStatus {
		return &v1alpha1.DriftStatus{Corrected: []v1alpha1.CorrectedObject{{Kind: "ConfigMap", Namespace: "shop", Name: name, Times: times}}}
	}
	for _, tc := range []struct {
		n      int
		due    []v1alpha1.DriftedObject
		status *v1alpha1.DriftStatus
		want   string
	}{
		{1, drifted("a"), nil, "applied 1 object again that had drifted: ConfigMap shop/a"},
		{1, drifted("a"), tried("a", 1), "applied 1 object again that had drifted: ConfigMap shop/a"},
		{1, drifted("a"), tried("a", 3), "applied 1 object again that had drifted: ConfigMap shop/a; tried 3 times in a row, as somebody undoes it"},
		{200, drifted("a", "b", "c", "d"), tried("z", 3), "applied 200 objects again that had drifted: ConfigMap shop/a, ConfigMap shop/b, ConfigMap shop/c and others"},
	} {
		if got := appliedAgain(tc.n, tc.due, tc.status); got != tc.want {
			t.Errorf("it says %q, want %q", got, tc.want)
		}
	}
}
