package render

import (
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// policyAnnotation of Helm says what becomes of an object that left the chart.
const policyAnnotation = "helm.sh/resource-policy"

// maxRefused is how many hooks an error names.
const maxRefused = 10

// notesSuffix ends the names of templates that are written for people.
const notesSuffix = "NOTES.txt"

// separator is where a rendered template is cut into documents. As for Helm a document may follow in the same line,
// which charts rely on.
var separator = regexp.MustCompile(`(?m)^---[ \t]*`)

// chartOutput collects what the templates of a chart wrote.
type chartOutput struct {
	given        values
	disableHooks bool
	found        []located
	skipped      []string
	refused      []string
}

// crds takes the files of the folders crds, which are no templates.
func (o *chartOutput) crds(ctx context.Context, c *chart.Chart) error {
	for _, crd := range c.CRDObjects() {
		if err := o.file(ctx, crd.Filename, string(crd.File.Data)); err != nil {
			return err
		}
	}
	return nil
}

// rendered takes what the templates wrote, by their paths.
func (o *chartOutput) rendered(ctx context.Context, texts map[string]string) error {
	for _, name := range sortedKeys(texts) {
		if strings.HasSuffix(name, notesSuffix) || strings.HasPrefix(path.Base(name), "_") {
			continue
		}
		if err := o.file(ctx, name, texts[name]); err != nil {
			return err
		}
	}
	return nil
}

func (o *chartOutput) file(ctx context.Context, name, text string) error {
	index := 0
	for _, part := range separator.Split(text, -1) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if strings.TrimSpace(part) == "" {
			continue
		}
		index++
		where := fmt.Sprintf("%s, document %d", name, index)
		docs, err := parseYAML([]byte(part))
		if err != nil {
			return invalid("%s: %s", where, o.explain(err))
		}
		for _, d := range docs {
			if err := o.document(d.value, where); err != nil {
				return err
			}
		}
	}
	return nil
}

// explain makes a message of an error in what a template wrote: a parser quotes it, and it may hold values.
func (o *chartOutput) explain(err error) string {
	p, ok := errors.AsType[parseError](err)
	if !ok {
		return "it is not valid YAML"
	}
	p.text = o.given.hide(p.text, "it is not valid YAML")
	if at := strings.IndexAny(p.text, `'"`); at >= 0 && !strings.HasPrefix(p.text, "the key ") {
		p.text = strings.TrimRight(p.text[:at], " ") + " (what it quotes is not shown)"
	}
	return p.Error()
}

func (o *chartOutput) document(v any, where string) error {
	if v == nil {
		return nil
	}
	m, err := asObject(v)
	switch {
	case err != nil:
		return invalid("%s: %v", where, err)
	case m == nil:
		return invalid("%s: it is not an object: apiVersion and kind are missing", where)
	}
	found, err := expand(nil, m, where)
	if err != nil {
		return err
	}
	for _, object := range found {
		o.object(object)
	}
	return nil
}

// object takes an object, or the hook that it is.
func (o *chartOutput) object(object located) {
	annotations, _, err := unstructured.NestedMap(object.Object, "metadata", "annotations")
	if err != nil {
		o.found = append(o.found, object) // the checks of every render say what is wrong
		return
	}
	keep(object, annotations)
	events, isHook := annotations[hookAnnotation]
	if !isHook || events == "crd-install" {
		o.found = append(o.found, object)
		return
	}
	var unknown bool
	object.hook, unknown = hookOf(annotations)
	ref := delivery.RefOf(object.Unstructured).String()
	switch {
	case !unknown && len(object.hook.Events) == 0:
		o.skipped = append(o.skipped, object.where+": test "+ref)
	case o.disableHooks:
		o.skipped = append(o.skipped, object.where+": hook "+ref)
	default:
		if why := refusedHook(object, unknown); why != "" {
			o.refused = append(o.refused, fmt.Sprintf("%s (%s)", ref, o.given.hide(delivery.Short(why), "hook")))
			return
		}
		o.found = append(o.found, object)
	}
}

// keep says in convoy's words what helm.sh/resource-policy: keep says: that the object is not pruned.
func keep(object located, annotations map[string]any) {
	if annotations[policyAnnotation] != "keep" {
		return
	}
	if _, own := annotations[v1alpha1.AnnotationPrune]; !own {
		annotations[v1alpha1.AnnotationPrune] = "disabled"
		_ = unstructured.SetNestedMap(object.Object, annotations, "metadata", "annotations")
	}
}

func isTest(hook any) bool {
	events, unknown := hookOf(map[string]any{hookAnnotation: hook})
	return hook != nil && !unknown && len(events.Events) == 0
}

// onlyTests says whether all that a template wrote are tests of the chart.
func onlyTests(text string) bool {
	for _, part := range separator.Split(text, -1) {
		docs, err := parseYAML([]byte(part))
		if err != nil {
			return false
		}
		for _, d := range docs {
			m, _ := d.value.(map[string]any)
			hook, _, _ := unstructured.NestedFieldNoCopy(m, "metadata", "annotations", hookAnnotation)
			if d.value != nil && !isTest(hook) {
				return false
			}
		}
	}
	return true
}

// refuse fails for hooks that cannot be run.
func (o *chartOutput) refuse() error {
	if len(o.refused) == 0 {
		return nil
	}
	slices.Sort(o.refused)
	more := ""
	if n := len(o.refused) - maxRefused; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return invalid("the chart has hooks that cannot be run: %s%s; turn them off with the chart's values, or all hooks with spec.render.helm.disableHooks",
		strings.Join(o.refused[:min(len(o.refused), maxRefused)], ", "), more)
}
