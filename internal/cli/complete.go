package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
)

// A shell waits for what it completes: names that take longer are not worth it, nor are more of them than anybody reads.
const (
	completionLimit = 2 * time.Second
	completionNames = 500
)

// complete gives a shell what the arguments of a command may be: a kind of these, and then the name of an object that the hub has. It
// says nothing when the hub does not answer.
func (f *hubFlags) complete(kinds ...kind) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		none := cobra.ShellCompDirectiveNoFileComp
		ctx, cancel := context.WithTimeout(cmd.Context(), completionLimit)
		defer cancel()
		if word, _, slash := strings.Cut(begun, "/"); len(args) == 0 && slash {
			for _, k := range kinds {
				if k.is(word) {
					return f.names(ctx, k, word+"/", begun, nil), none
				}
			}
			return nil, none
		}
		switch len(args) {
		case 0:
			var all []cobra.Completion
			for _, k := range kinds {
				if strings.HasPrefix(k.singular, begun) {
					all = append(all, k.singular)
				}
			}
			if len(kinds) == 1 {
				all = append(all, f.names(ctx, kinds[0], "", begun, all)...)
			}
			return all, none
		case 1:
			for _, k := range kinds {
				if k.is(args[0]) {
					return f.names(ctx, k, "", begun, nil), none
				}
			}
		}
		return nil, none
	}
}

// names are those of the objects of a kind, after a prefix, that begin as a word does and are not among others.
func (f *hubFlags) names(ctx context.Context, k kind, prefix, begun string, others []string) (all []string) {
	f.overrides.Timeout = completionLimit.String() // of a server that takes the connection and says nothing
	h, err := f.connect()
	if err != nil {
		return nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(k.Title + "List"))
	if err := h.List(ctx, list, client.InNamespace(h.namespace), client.Limit(completionNames)); err != nil {
		return nil
	}
	for i := range list.Items {
		if name := prefix + list.Items[i].Name; strings.HasPrefix(name, begun) && !slices.Contains(others, name) {
			all = append(all, name)
		}
	}
	return all
}
