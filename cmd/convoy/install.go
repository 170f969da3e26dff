package main

import (
	"context"
	"errors"
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
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"kumodo.io/convoy/activities"
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
	cmd.AddCommand(searchAttributesCommand(), claimCommand())
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
			c, namespace, err := t.dial(cmd.Context())
			if err != nil {
				return err
			}
			defer c.Close()
			added, err := worker.SearchAttributes(cmd.Context(), c, namespace)
			if err != nil {
				return err
			}
			said := "has all search attributes"
			if len(added) > 0 {
				said = "has now the search attributes " + strings.Join(added, ", ")
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "Namespace %s of Temporal %s\n", namespace, said)
			return err
		},
	}
	t.bind(cmd.Flags())
	return cmd
}

// dial connects a command to Temporal, and names the namespace that the connection is about.
func (t *temporalFlags) dial(ctx context.Context) (temporalclient.Client, string, error) {
	o, err := t.options()
	if err != nil {
		return nil, "", err
	}
	o.Logger = temporallog.NewStructuredLogger(slog.New(slog.DiscardHandler))
	c, err := temporalclient.DialContext(ctx, o)
	if err != nil {
		return nil, "", fmt.Errorf("connect to Temporal at %s: %w", o.HostPort, err)
	}
	return c, o.Namespace, nil
}

// claiming is what the command claim is asked for.
type claiming struct {
	Temporal   temporalFlags
	Kubeconfig string
	TakeOver   bool
}

func claimCommand() *cobra.Command {
	var c claiming
	cmd := &cobra.Command{
		Use:   "claim",
		Short: "Tell which hub a namespace of Temporal serves, or let it serve another one",
		Long: strings.TrimSpace(`
Tell which hub a namespace of Temporal serves. A convoy that starts claims its namespace for its hub, and ends when that serves
another one: workflows are named after objects, so those of two hubs would mix.

--take-over lets the namespace serve the hub of --kubeconfig from now on. A convoy of the former hub that still runs ends within
a minute; let it end before. Workflows of its objects find nothing on the new hub, and end too.`),
		Example: `  convoy install claim --temporal-address localhost:7233 --temporal-namespace hub-1
  convoy install claim --take-over --kubeconfig hub.yaml --temporal-address localhost:7233 --temporal-namespace hub-1`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	c.Temporal.bind(cmd.Flags())
	cmd.Flags().StringVar(&c.Kubeconfig, "kubeconfig", "", "kubeconfig of the hub that takes over; the service account of the pod when empty")
	cmd.Flags().BoolVar(&c.TakeOver, "take-over", false, "let the namespace serve this hub, whichever it serves")
	return cmd
}

func (c *claiming) run(ctx context.Context, out io.Writer) error {
	if c.Kubeconfig != "" && !c.TakeOver {
		return errors.New("--kubeconfig names the hub that takes over: give --take-over too")
	}
	temporal, namespace, err := c.Temporal.dial(ctx)
	if err != nil {
		return err
	}
	defer temporal.Close()
	if c.TakeOver {
		id, err := c.hubID(ctx)
		if err == nil {
			err = worker.TakeOver(ctx, temporal, id)
		}
		if err != nil {
			return err
		}
	}
	holder, err := worker.Holder(ctx, temporal, namespace)
	if err != nil {
		return err
	}
	said := "serves the hub " + holder
	if holder == "" {
		said = "serves no hub"
	}
	_, err = fmt.Fprintf(out, "Namespace %s of Temporal %s\n", namespace, said)
	return err
}

// hubID reads the identity of the hub that takes over.
func (c *claiming) hubID(ctx context.Context) (string, error) {
	cfg, err := (&config{Kubeconfig: c.Kubeconfig}).hub()
	if err != nil {
		return "", err
	}
	s, err := newScheme()
	if err != nil {
		return "", err
	}
	hub, err := client.New(cfg, client.Options{Scheme: s})
	if err != nil {
		return "", fmt.Errorf("hub: %w", err)
	}
	return activities.HubID(ctx, hub)
}
