package render

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"text/template"

	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/engine"
)

// The bounds of the templates of a chart. They count work, not time: what passes once, passes always.
const (
	maxSteps     = 2_000_000 // turns of loops, calls of templates and functions
	maxTemplates = 256 << 20 // bytes that all templates write, also into each other
	maxText      = 16 << 20  // bytes of one text
	maxCalls     = 1000      // templates within templates
	maxBlocks    = 200       // blocks within blocks
	maxItems     = 100_000   // numbers of one range
)

// templates runs the templates of one chart. It does what Helm's engine does, with Helm's scopes and functions; but that
// engine can neither be ended nor bounded, and a chart is untrusted: a loop would hold the worker for ever, and a
// text that calls itself through tpl would overflow the stack, which ends the process.
type templates struct {
	ctx       context.Context //nolint:containedctx // it lives for one call of render, and template functions cannot be given one
	functions template.FuncMap
	bounded   map[any]bool // parsed trees that got their guards
	files     map[string]bool
	steps     int
	written   int
	depth     int
	// placeholders lets functions of time and chance give a placeholder, for a template that is left out anyway.
	placeholders bool
}

// scope is the dot of the templates of one chart.
type scope struct {
	values   common.Values
	basePath string
}

// renderTemplates renders all templates of the chart. The result is by path, such as web/charts/db/templates/a.yaml.
func renderTemplates(ctx context.Context, c *chart.Chart, values common.Values) (map[string]string, *templates, error) {
	t := &templates{ctx: ctx, bounded: map[any]bool{}, files: map[string]bool{}}
	t.functions = t.allFunctions()
	scopes, err := scopesOf(ctx, c, values)
	if err != nil {
		return nil, t, err
	}
	texts, dots := map[string]string{}, map[string]scope{}
	collect(c, scopes, texts, dots)
	for name := range texts {
		t.files[name] = true
	}
	rendered, err := t.render(texts, dots)
	return rendered, t, err
}

// scopesOf lets Helm's engine make the dot of each chart, by its full path: a template of ours takes it.
func scopesOf(ctx context.Context, c *chart.Chart, values common.Values) (map[string]scope, error) {
	scopes := map[string]scope{}
	take := func(dot common.Values) (string, error) {
		about, err := dot.Table("Template")
		if err != nil {
			return "", err
		}
		basePath, _ := about["BasePath"].(string)
		scopes[strings.TrimSuffix(basePath, "/templates")] = scope{dot, basePath}
		return "", nil
	}
	restore := replaceTemplates(c, []*common.File{{Name: "templates/take", Data: []byte("{{ take . }}")}})
	defer restore()
	e := engine.Engine{CustomTemplateFuncs: template.FuncMap{"take": take}}
	if _, err := e.RenderWithContext(ctx, c, values); err != nil {
		return nil, fmt.Errorf("take the scopes of the chart: %w", err)
	}
	return scopes, nil
}

// replaceTemplates gives the chart and all in it other templates until restore is called.
func replaceTemplates(c *chart.Chart, with []*common.File) (restore func()) {
	own := c.Templates
	c.Templates = with
	inner := make([]func(), 0, len(c.Dependencies()))
	for _, sub := range c.Dependencies() {
		inner = append(inner, replaceTemplates(sub, with))
	}
	return func() {
		c.Templates = own
		for _, restore := range inner {
			restore()
		}
	}
}

// collect finds the templates of a chart and of those in it. Of a library only partials count.
func collect(c *chart.Chart, scopes map[string]scope, texts map[string]string, dots map[string]scope) {
	for _, f := range c.Templates {
		if c.Metadata.Type == "library" && !strings.HasPrefix(path.Base(f.Name), "_") {
			continue
		}
		name := path.Join(c.ChartFullPath(), f.Name)
		texts[name] = string(f.Data)
		dots[name] = scopes[c.ChartFullPath()]
	}
	for _, sub := range c.Dependencies() {
		collect(sub, scopes, texts, dots)
	}
}

// inOrder sorts paths as Helm does: deep ones first, so that a chart's definitions replace those of the charts in it.
func inOrder(texts map[string]string) []string {
	names := sortedKeys(texts)
	slices.SortStableFunc(names, func(a, b string) int {
		if d := strings.Count(b, "/") - strings.Count(a, "/"); d != 0 {
			return d
		}
		return strings.Compare(b, a)
	})
	return names
}

func (t *templates) render(texts map[string]string, dots map[string]scope) (rendered map[string]string, err error) {
	defer func() {
		if p := recover(); p != nil { // templates are untrusted
			rendered, err = nil, errTemplatePanic
		}
	}()
	root := template.New("gotpl").Option("missingkey=zero")
	root.Funcs(t.functions).Funcs(t.bound(root))
	names := inOrder(texts)
	for _, name := range names {
		if err := t.step(); err != nil {
			return nil, err
		}
		if _, err := root.New(name).Parse(texts[name]); err != nil {
			return nil, err
		}
	}
	if err := t.guard(root); err != nil {
		return nil, err
	}
	rendered = make(map[string]string, len(names))
	for _, name := range names {
		if strings.HasPrefix(path.Base(name), "_") {
			continue
		}
		dot := dots[name]
		dot.values["Template"] = common.Values{"Name": name, "BasePath": dot.basePath}
		if rendered[name], err = t.file(root, name, dot.values); err != nil {
			return nil, err
		}
		rendered[name] = strings.ReplaceAll(rendered[name], noValue, "")
	}
	return rendered, nil
}

// file runs a template of a file. A test of the chart, which is left out, may use what others may not: charts
// give their tests random names.
func (t *templates) file(root *template.Template, name string, dot common.Values) (string, error) {
	text, err := t.execute(root, name, dot)
	if _, refused := errors.AsType[refusal](err); !refused {
		return text, err
	}
	t.placeholders = true
	defer func() { t.placeholders = false }()
	if again, failed := t.execute(root, name, dot); failed == nil && onlyTests(again) {
		return again, nil
	}
	return "", err
}

// noValue is what text/template writes for a value that is not there.
const noValue = "<no value>"

// bound are the functions that know the set of templates they are called in.
func (t *templates) bound(set *template.Template) template.FuncMap {
	return template.FuncMap{
		"include": func(name string, dot any) (string, error) { return t.execute(set, name, dot) },
		"tpl":     func(text string, dot any) (string, error) { return t.tpl(set, text, dot) },
	}
}

// execute runs a template of a set.
func (t *templates) execute(set *template.Template, name string, dot any) (string, error) {
	if err := t.enter(); err != nil {
		return "", err
	}
	defer t.leave()
	out := &limited{templates: t}
	err := set.ExecuteTemplate(out, name, dot)
	return out.String(), err
}

// tpl runs a text as a template that sees the definitions of its set. What it defines is seen by itself only.
func (t *templates) tpl(parent *template.Template, text string, dot any) (string, error) {
	if err := t.enter(); err != nil {
		return "", err
	}
	defer t.leave()
	if !strings.Contains(text, "{{") {
		return strings.ReplaceAll(text, noValue, ""), nil
	}
	set, err := parent.Clone()
	if err != nil {
		return "", err
	}
	set.Option("missingkey=zero").Funcs(t.bound(set))
	// It has the name of its parent, which no template of the chart has.
	own, err := set.New(parent.Name()).Parse(text)
	if err != nil {
		return "", err
	}
	if err := t.guard(own); err != nil {
		return "", err
	}
	out := &limited{templates: t}
	if err := own.Execute(out, dot); err != nil {
		return "", err
	}
	return strings.ReplaceAll(out.String(), noValue, ""), nil
}

// enter begins a template within another. Each takes a part of the stack.
func (t *templates) enter() error {
	if t.depth >= maxCalls {
		return boundError("its templates call each other without end")
	}
	t.depth++
	return t.step()
}

func (t *templates) leave() { t.depth-- }

// step counts work, and ends it with the context.
func (t *templates) step() error {
	if t.steps++; t.steps > maxSteps {
		return boundError(fmt.Sprintf("its loops take too many turns: at most %d turns and calls in all", maxSteps))
	}
	return t.ctx.Err()
}

// limited takes the output of a template.
type limited struct {
	strings.Builder
	templates *templates
}

// Write implements io.Writer.
func (l *limited) Write(p []byte) (int, error) {
	t := l.templates
	if t.written += len(p); t.written > maxTemplates || l.Len()+len(p) > maxText*4 {
		return 0, boundError("its templates write too much")
	}
	if err := t.ctx.Err(); err != nil {
		return 0, err
	}
	return l.Builder.Write(p)
}

// boundError says which bound a chart meets.
type boundError string

func (e boundError) Error() string { return string(e) }

var errTemplatePanic = errors.New("panic in a template")
