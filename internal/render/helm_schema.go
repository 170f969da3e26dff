package render

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	chart "helm.sh/helm/v4/pkg/chart/v2"

	"kumodo.io/convoy/internal/delivery"
)

// schemaFile is the file of a chart with the schema of its values.
const schemaFile = "values.schema.json"

// maxSchemaErrors is how many places that do not fit are named.
const maxSchemaErrors = 5

// checkSchemas validates the values of a chart and of those in it. Helm's own validation would fetch what a schema
// refers to, from servers and from disk, and quotes values.
func checkSchemas(c *chart.Chart, values map[string]any) error {
	if len(c.Schema) > 0 {
		if err := checkSchema(c.Schema, values); err != nil {
			return invalid("chart %s: %v", c.ChartPath(), err)
		}
	}
	for _, sub := range c.Dependencies() {
		inner, has := values[sub.Name()]
		if !has || inner == nil {
			continue
		}
		m, ok := inner.(map[string]any)
		if !ok {
			return invalid("the values of the chart %s are not a map", sub.ChartPath())
		}
		if err := checkSchemas(sub, m); err != nil {
			return err
		}
	}
	return nil
}

func checkSchema(content []byte, values map[string]any) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s is not valid", schemaFile)
		}
	}()
	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("%s is not valid JSON", schemaFile)
	}
	const url = "file:///" + schemaFile
	loader := &noLoader{}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(loader)
	if err := compiler.AddResource(url, schema); err != nil {
		return fmt.Errorf("%s is not valid", schemaFile)
	}
	compiled, err := compiler.Compile(url)
	switch {
	case loader.refused != "":
		return fmt.Errorf("%s refers to %q, and nothing is fetched at a render; copy what it refers to into the schema", schemaFile, delivery.Short(loader.refused))
	case err != nil:
		return fmt.Errorf("%s is not a valid schema", schemaFile)
	}
	if err := compiled.Validate(values); err != nil {
		return explainSchema(err)
	}
	return nil
}

// noLoader refuses what a schema refers to outside of itself. As for Helm, a urn that nobody knows allows anything.
type noLoader struct{ refused string }

func (l *noLoader) Load(url string) (any, error) {
	if strings.HasPrefix(url, "urn:") {
		return true, nil
	}
	l.refused = strings.TrimPrefix(url, "file:///")
	return nil, errors.New("refused")
}

// explainSchema names the places that do not fit and what is wrong there, and no value.
func explainSchema(err error) error {
	v, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return fmt.Errorf("the values do not fit %s", schemaFile)
	}
	var places []string
	var walk func(*jsonschema.ValidationError)
	walk = func(v *jsonschema.ValidationError) {
		for _, cause := range v.Causes {
			walk(cause)
		}
		if len(v.Causes) == 0 {
			places = append(places, delivery.Short(strings.Join(append([]string{"values"}, v.InstanceLocation...), "."))+" "+mismatch(v.ErrorKind))
		}
	}
	walk(v)
	slices.Sort(places)
	places = slices.Compact(places)
	return fmt.Errorf("the values do not fit %s: %s", schemaFile, strings.Join(places[:min(len(places), maxSchemaErrors)], "; "))
}

func mismatch(what jsonschema.ErrorKind) string {
	switch k := what.(type) {
	case *kind.Type:
		return fmt.Sprintf("is of the type %s, and must be %s", k.Got, strings.Join(k.Want, " or "))
	case *kind.Required:
		return "lacks " + delivery.Short(strings.Join(k.Missing, ", "))
	case *kind.AdditionalProperties:
		slices.Sort(k.Properties)
		return "must not have " + delivery.Short(strings.Join(k.Properties, ", "))
	}
	if keywords := what.KeywordPath(); len(keywords) > 0 {
		return "does not fit the schema's " + keywords[0]
	}
	return "is not allowed"
}
