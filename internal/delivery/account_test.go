package delivery

import (
	"testing"

	"kumodo.io/convoy/api/v1alpha1"
)

func TestAReleaseActsAsWhatItNamesOrElseAsWhatTheOperatorSays(t *testing.T) {
	for name, tc := range map[string]struct {
		rules     ServiceAccounts
		named     string
		want      string
		permitted bool
	}{
		"nothing is said":       {permitted: true},
		"it names one":          {named: "own", want: "own", permitted: true},
		"a default":             {rules: ServiceAccounts{Default: "default"}, want: "default", permitted: true},
		"its own over that":     {rules: ServiceAccounts{Default: "default"}, named: "own", want: "own", permitted: true},
		"required, and missing": {rules: ServiceAccounts{Required: true}},
		"required, and named":   {rules: ServiceAccounts{Required: true}, named: "own", want: "own", permitted: true},
		"required, by default":  {rules: ServiceAccounts{Default: "default", Required: true}, want: "default", permitted: true},
	} {
		r := &v1alpha1.Release{Spec: v1alpha1.ReleaseSpec{ServiceAccountName: tc.named}}
		if got, permitted := tc.rules.ActsAs(r); got.Name != tc.want || permitted != tc.permitted {
			t.Errorf("%s: %q, %v", name, got, permitted)
		}
	}
}
