package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/yaml"
)

// format is how a command prints what it read.
type format string

func (f *format) bind(flags *pflag.FlagSet) {
	flags.VarP(f, "output", "o", "yaml or json; else for people")
}

// Set takes the value of the flag.
func (f *format) Set(text string) error {
	if !slices.Contains([]string{"yaml", "json"}, text) {
		return fmt.Errorf("%q is neither yaml nor json", text)
	}
	*f = format(text)
	return nil
}

// String is the value of the flag.
func (f *format) String() string { return string(*f) }

// Type names the value in the help.
func (f *format) Type() string { return "format" }

// print writes a value for scripts, or else has it written for people.
func (f *format) print(out io.Writer, value any, people func(io.Writer) error) error {
	var (
		text []byte
		err  error
	)
	switch *f {
	case "json":
		text, err = json.MarshalIndent(value, "", "  ")
		text = append(text, '\n')
	case "yaml":
		text, err = yaml.Marshal(value)
	default:
		return people(out)
	}
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return err
}

// table writes rows under a header, in columns.
func table(out io.Writer, header []string, rows [][]string) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, strings.Join(header, "\t"))
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = cmp.Or(oneLine(cell), "-")
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	return w.Flush()
}

// facts writes names with their values, without those that are empty.
func facts(out io.Writer, pairs ...string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for pair := range slices.Chunk(pairs, 2) {
		if pair[1] != "" {
			fmt.Fprintf(w, "%s:\t%s\n", pair[0], oneLine(pair[1]))
		}
	}
	return w.Flush()
}

// oneLine keeps what others wrote from moving the cursor, or from breaking a table.
func oneLine(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 }), " ")
}

// age is how long ago something was.
func age(t metav1.Time, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return duration.HumanDuration(now.Sub(t.Time))
}

// ago is age as part of a sentence.
func ago(t metav1.Time, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return age(t, now) + " ago"
}

// when is a moment that may be ahead.
func when(t, now time.Time) string {
	if t.After(now) {
		return fmt.Sprintf("in %s, at %s", duration.HumanDuration(t.Sub(now)), t.UTC().Format(time.RFC3339))
	}
	return "now"
}

func count(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}
