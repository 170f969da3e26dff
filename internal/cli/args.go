package cli

import (
	"fmt"
	"slices"
	"strings"
)

// kind is a kind of object that commands name.
type kind struct {
	// singular is how messages and examples call it, Title its name in the API.
	singular, Title string
	names           []string
}

var (
	releaseKind = kind{"release", "Release", []string{"release", "releases", "cvr", "release.core.convoy.kumodo.io", "releases.core.convoy.kumodo.io"}}
	clusterKind = kind{"cluster", "Cluster", []string{"cluster", "clusters", "cvc", "cluster.core.convoy.kumodo.io", "clusters.core.convoy.kumodo.io"}}
)

func (k kind) is(word string) bool { return slices.Contains(k.names, strings.ToLower(word)) }

// object is what the arguments of a command name: kind NAME, kind/NAME, or NAME alone where only one kind is possible.
func object(args []string, kinds ...kind) (kind, string, error) {
	word, name, given := "", "", len(args) == 2
	switch len(args) {
	case 1:
		word, name, given = strings.Cut(args[0], "/")
	case 2:
		word, name = args[0], args[1]
	}
	for _, k := range kinds {
		switch {
		case !k.is(word):
		case name == "" || strings.Contains(name, "/"):
			return k, "", fmt.Errorf("which %s? give its name, as in %s/NAME", k.singular, k.singular)
		default:
			return k, name, nil
		}
	}
	if len(kinds) == 1 && !given && word != "" {
		return kinds[0], word, nil
	}
	want := make([]string, len(kinds))
	for i, k := range kinds {
		want[i] = k.singular + " NAME"
		if len(args) == 1 && !given {
			want[i] = k.singular + " " + word
		}
	}
	if len(args) == 1 && !given {
		return kind{}, "", fmt.Errorf("which %s? give %s", word, strings.Join(want, " or "))
	}
	return kind{}, "", fmt.Errorf("%q names nothing that this command works on; give %s", strings.Join(args, " "), strings.Join(want, " or "))
}

// release is the name of the Release that the arguments of a command name.
func release(args []string) (string, error) {
	_, name, err := object(args, releaseKind)
	return name, err
}
