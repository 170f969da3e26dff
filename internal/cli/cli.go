package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	temporalclient "go.temporal.io/sdk/client"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/connect"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/dial"
	"kumodo.io/convoy/internal/render"
)

// Settings are what the commands share with the others of the program.
type Settings struct {
	// UserAgent is how the hub and the targets see the program.
	UserAgent string
	// Temporal is how to reach Temporal.
	Temporal TemporalFlags
	// Target says to which addresses, and how, a connection to a target may go.
	Target TargetFlags
	// Render renders files, as the command render does.
	Render RenderFlags
}

// TemporalFlags binds the flags about Temporal, and gives what they and the environment say.
type TemporalFlags struct {
	Bind    func(*pflag.FlagSet)
	Options func() (temporalclient.Options, error)
}

// TargetFlags binds the flags about connections to targets, and gives what they say.
type TargetFlags struct {
	Bind    func(*pflag.FlagSet)
	Options func() (dial.Policy, connect.Options, delivery.ServiceAccounts, error)
}

// RenderFlags binds the flags of the command render but those of its output. Given reports whether they name a file. Render
// reads what the files do not hold from the hub.
type RenderFlags struct {
	Bind   func(*pflag.FlagSet)
	Given  func() bool
	Render func(ctx context.Context, in io.Reader, hub client.Reader) (*v1alpha1.Release, *render.Output, error)
}

// Commands are the commands for people.
func Commands(s Settings) []*cobra.Command {
	return []*cobra.Command{
		getCommand(s), describeCommand(s), historyCommand(s), whyCommand(s), diffCommand(s),
		suspendCommand(s, true), suspendCommand(s, false), reconcileCommand(s), approveCommand(s), rollbackCommand(s),
		reprobeCommand(s),
	}
}

// exit ends the program with a code. It has nothing to say when err is nil.
type exit struct {
	code int
	err  error
}

func (e *exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exit) Unwrap() error { return e.err }

// Report writes what a command ended with, and gives the exit code of the program.
func Report(out io.Writer, name string, err error) int {
	if err == nil {
		return 0
	}
	code := 1
	if e, ok := errors.AsType[*exit](err); ok {
		if code = e.code; e.err == nil {
			return code
		}
	}
	fmt.Fprintf(out, "%s: %v\n", name, err)
	return code
}
