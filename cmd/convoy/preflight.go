package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/time/rate"

	"kumodo.io/convoy/worker"
)

// preflight is what the command of that name is asked for.
type preflight struct {
	Temporal    temporalFlags
	Hub         hubCheck
	Limit       int
	Concurrency int
	Output      string
}

// verdict is what it prints.
type verdict struct {
	Version string `json:"version"`
	OK      bool   `json:"ok"`
	*worker.Preflight
	// Hub is absent when it was not looked at.
	Hub *hubVerdict `json:"hub,omitempty"`
}

func preflightCommand() *cobra.Command {
	var p preflight
	cmd := &cobra.Command{
		Use:   "preflight",
		Short: "Say whether this build can take over from the convoy that runs, before an upgrade or a step back",
		Long: strings.TrimSpace(`
Replay with the workflows of this build the histories of all workflows that run in the namespace of Temporal, and name those that this
build cannot go on with. With --kubeconfig or --context, look also at the hub: whether its CRDs have what this build needs, and whether
its Clusters, Releases, Inventories and Approvals have fields that this build does not know.

Nothing is written. It uses the connection of this shell, as the temporal command does: the TEMPORAL_* variables and flags. It ends
with code 1 when this build cannot take over.`),
		Example: "  convoy preflight --temporal-namespace hub-1\n  convoy preflight --kubeconfig hub.kubeconfig -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := p.validate(); err != nil {
				return err
			}
			return p.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.IntVar(&p.Limit, "limit", 0, "workflows of each type that are replayed, the newest ones; 0 for all")
	f.IntVar(&p.Concurrency, "concurrency", 4, "workflows that are replayed at once")
	f.StringVarP(&p.Output, "output", "o", "", "json; else for people")
	p.Hub.bind(f)
	p.Temporal.bind(f)
	return cmd
}

func (p *preflight) validate() error {
	switch {
	case p.Limit < 0:
		return errors.New("--limit must not be below 0")
	case p.Concurrency <= 0:
		return errors.New("--concurrency must be above 0")
	case p.Output != "" && p.Output != "json":
		return fmt.Errorf("--output: %q is not json", p.Output)
	}
	return nil
}

func (p *preflight) run(ctx context.Context, out, progress io.Writer) error {
	c, namespace, err := p.Temporal.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	now := rate.Sometimes{Interval: 5 * time.Second}
	now.Do(func() {}) // nothing is said of what is over at once
	check := worker.PreflightOptions{
		Namespace: namespace, Limit: p.Limit, Concurrency: p.Concurrency, Register: worker.RegisterWorkflows,
		Progress: func(replayed, failed int) {
			now.Do(func() { fmt.Fprintf(progress, "replayed %d workflows, of which %d failed\n", replayed, failed) })
		},
	}
	v := &verdict{Version: version}
	if v.Preflight, err = check.Check(ctx, c); err != nil {
		return err
	}
	if v.Hub, err = p.Hub.check(ctx); err != nil {
		return err
	}
	v.OK = len(v.Failures) == 0 && (v.Hub == nil || len(v.Hub.Objects) == 0)
	if err := p.print(out, v); err != nil || v.OK {
		return err
	}
	return errors.New("this build cannot take over: docs/upgrading.md says what to do")
}

func (p *preflight) print(out io.Writer, v *verdict) error {
	if p.Output == "json" {
		text, err := json.MarshalIndent(v, "", "  ")
		if err == nil {
			_, err = out.Write(append(text, '\n'))
		}
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "WORKFLOWS\tREPLAYED\tFAILED\tLEFT-OUT")
	for _, t := range v.Types {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\n", t.Type, t.Replayed, t.Failed, t.LeftOut)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, f := range v.Failures {
		fmt.Fprintf(out, "%s, run %s: %s\n", f.Workflow, f.Run, f.Problem)
	}
	v.Hub.write(out)
	if v.OK {
		fmt.Fprintf(out, "Build %s can take over.\n", v.Version)
	}
	return nil
}
