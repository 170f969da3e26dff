package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"
	temporalclient "go.temporal.io/sdk/client"
	temporallog "go.temporal.io/sdk/log"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"kumodo.io/convoy/deploy"
	"kumodo.io/convoy/worker"
)

// installation is what the command install is asked for.
type installation struct {
	Namespace         string
	Image             string
	TemporalAddress   string
	TemporalNamespace string
	Values            string
	CRDs              bool
}

func installCommand() *cobra.Command {
	var i installation
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Print what installs convoy on a hub, for kubectl apply",
		Long: strings.TrimSpace(`
Print the namespace, the CRDs and all that convoy runs with on a hub: what the chart of convoy renders to. Nothing is written
to any cluster.

--values takes a file with values of the chart, such as Secrets for the connection to Temporal; the other flags outweigh it.
The address of Temporal is the one that pods on the hub use; TEMPORAL_ADDRESS of this shell is not looked at.`),
		Example: `  convoy install --image convoy:v1 --temporal-address temporal-frontend.temporal.svc:7233 | kubectl apply --server-side -f -
  convoy install -f values.yaml | kubectl diff --server-side -f -`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return i.run(cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVarP(&i.Namespace, "namespace", "n", deploy.Namespace, "namespace that convoy lives in")
	f.StringVar(&i.Image, "image", "", "image of convoy, with its tag or digest")
	f.StringVar(&i.TemporalAddress, "temporal-address", "", "host:port of Temporal, as pods on the hub reach it")
	f.StringVar(&i.TemporalNamespace, "temporal-namespace", "", "namespace of Temporal, which serves this hub alone")
	f.StringVarP(&i.Values, "values", "f", "", "file with values of the chart; - is the standard input")
	f.BoolVar(&i.CRDs, "crds", true, "print the CRDs too")
	cmd.AddCommand(searchAttributesCommand())
	return cmd
}

func (i *installation) run(in io.Reader, out io.Writer) error {
	if reasons := validation.IsDNS1123Label(i.Namespace); len(reasons) > 0 {
		return fmt.Errorf("--namespace: %q is no name of a namespace", i.Namespace)
	}
	values, err := i.values(in)
	if err != nil {
		return err
	}
	text, err := deploy.Bundle(i.Namespace, values)
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, text)
	return err
}

// values are those of the file, with what the flags say on top.
func (i *installation) values(in io.Reader) (map[string]any, error) {
	values := map[string]any{}
	if i.Values != "" {
		read := func() ([]byte, error) { return os.ReadFile(i.Values) }
		if i.Values == "-" {
			read = func() ([]byte, error) { return io.ReadAll(in) }
		}
		raw, err := read()
		if err != nil {
			return nil, fmt.Errorf("--values: %w", err)
		}
		if err := yaml.Unmarshal(raw, &values); err != nil {
			return nil, fmt.Errorf("--values: %s is not a YAML file of values: %w", i.Values, err)
		}
	}
	for _, given := range []struct {
		value string
		path  []string
	}{
		{i.Image, []string{"image"}},
		{i.TemporalAddress, []string{"temporal", "address"}},
		{i.TemporalNamespace, []string{"temporal", "namespace"}},
	} {
		if given.value != "" {
			if err := unstructured.SetNestedField(values, given.value, given.path...); err != nil {
				return nil, fmt.Errorf("--values: %w", err)
			}
		}
	}
	if !i.CRDs {
		if err := unstructured.SetNestedField(values, false, "crds", "enabled"); err != nil {
			return nil, fmt.Errorf("--values: %w", err)
		}
	}
	return values, nil
}

func searchAttributesCommand() *cobra.Command {
	var t temporalFlags
	cmd := &cobra.Command{
		Use:   "search-attributes",
		Short: "Register in a namespace of Temporal the search attributes that convoy needs",
		Long: strings.TrimSpace(`
Register in a namespace of Temporal the search attributes that it lacks of those that convoy needs. Workers do so themselves
when they start; this is for where they may not. It uses the connection of this shell: the TEMPORAL_* variables and flags.`),
		Example: "  convoy install search-attributes --temporal-address localhost:7233 --temporal-namespace hub-1",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := t.options()
			if err != nil {
				return err
			}
			o.Logger = temporallog.NewStructuredLogger(slog.New(slog.DiscardHandler))
			c, err := temporalclient.DialContext(cmd.Context(), o)
			if err != nil {
				return fmt.Errorf("connect to Temporal at %s: %w", o.HostPort, err)
			}
			defer c.Close()
			added, err := worker.SearchAttributes(cmd.Context(), c, o.Namespace)
			if err != nil {
				return err
			}
			said := "has all search attributes"
			if len(added) > 0 {
				said = "has now the search attributes " + strings.Join(added, ", ")
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "Namespace %s of Temporal %s\n", o.Namespace, said)
			return err
		},
	}
	t.bind(cmd.Flags())
	return cmd
}
