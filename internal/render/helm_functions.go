package render

import (
	"reflect"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"
)

// refusedFunctions give time or randomness, by what they give. A render would differ each time, and roll out each time.
var refusedFunctions = map[string]string{
	"now": givesTime, "ago": givesTime,
	"randAlphaNum": givesChance, "randAlpha": givesChance, "randAscii": givesChance, "randNumeric": givesChance,
	"randInt": givesChance, "randBytes": givesChance, "uuidv4": givesChance, "shuffle": givesChance,
	"genPrivateKey": givesChance, "genCA": givesChance, "genCAWithKey": givesChance, "genSelfSignedCert": givesChance,
	"genSelfSignedCertWithKey": givesChance, "genSignedCert": givesChance, "genSignedCertWithKey": givesChance,
	"bcrypt": givesChance, "htpasswd": givesChance, "encryptAES": givesChance,
	"getHostByName": "what a name server answers at the moment",
}

const (
	givesTime   = "the time"
	givesChance = "something random"
)

// takenFunctions are those of sprig that are taken as they are. A function that is in no list here is not there for
// charts, so that a new version of sprig brings none unseen.
var takenFunctions = strings.Fields(`
abbrev abbrevboth trunc trim upper lower title untitle substr trimall trimAll trimSuffix trimPrefix nospace initials
swapcase snakecase camelcase kebabcase wrap wrapWith contains hasPrefix hasSuffix quote squote cat replace
plural sha1sum sha256sum sha512sum adler32sum toString atoi int64 int float64 toDecimal split splitList splitn toStrings
add1 add sub div mod mul add1f addf subf divf mulf biggest max min maxf minf ceil floor round join sortAlpha default
empty coalesce all any compact mustCompact toPrettyJson toRawJson mustToPrettyJson mustToRawJson
ternary deepCopy mustDeepCopy typeOf typeIs typeIsLike kindOf kindIs deepEqual base dir clean ext isAbs osBase osClean
osDir osExt osIsAbs b64enc b64dec b32enc b32dec tuple list dict get unset hasKey pluck pick omit append push mustAppend
mustPush prepend mustPrepend first mustFirst rest mustRest last mustLast initial mustInitial reverse mustReverse uniq
mustUniq without mustWithout slice mustSlice concat dig chunk mustChunk derivePassword buildCustomCert decryptAES semver
semverCompare regexMatch mustRegexMatch regexFindAll mustRegexFindAll regexFind mustRegexFind regexReplaceAll
mustRegexReplaceAll regexReplaceAllLiteral mustRegexReplaceAllLiteral regexSplit mustRegexSplit regexQuoteMeta
urlParse urlJoin hello date_modify dateModify must_date_modify mustDateModify duration unixEpoch
`)

// allFunctions are what the templates of a chart may call, besides include and tpl.
func (t *templates) allFunctions() template.FuncMap {
	all := template.FuncMap{}
	fromSprig := sprig.TxtFuncMap()
	for _, name := range takenFunctions {
		if f, ok := fromSprig[name]; ok {
			all[name] = t.counted(f)
		}
	}
	for _, own := range []template.FuncMap{helmFunctions(), dateFunctions(), exactFunctions(), boundedFunctions(fromSprig), stableFunctions(fromSprig)} {
		for name, f := range own {
			all[name] = t.counted(f)
		}
	}
	for name, what := range refusedFunctions {
		all[name] = func(...any) (any, error) {
			if t.placeholders {
				return placeholder, nil
			}
			return nil, refusal{name, what}
		}
	}
	all[stepFunction] = func() (string, error) { return "", t.step() }
	return all
}

// placeholder stands where a test of a chart would have something random.
const placeholder = "random"

// refusal is the error of a function whose answer is another one each time.
type refusal struct{ function, gives string }

func (r refusal) Error() string { return r.function + " gives " + r.gives }

var errorType = reflect.TypeFor[error]()

// counted wraps a function so that each call is a step, and a text that it returns is bounded.
func (t *templates) counted(f any) any {
	inner := reflect.ValueOf(f)
	was := inner.Type()
	in := make([]reflect.Type, was.NumIn())
	for i := range in {
		in[i] = was.In(i)
	}
	is := reflect.FuncOf(in, []reflect.Type{was.Out(0), errorType}, was.IsVariadic())
	invoke := inner.Call
	if was.IsVariadic() {
		invoke = inner.CallSlice
	}
	return reflect.MakeFunc(is, func(args []reflect.Value) []reflect.Value {
		noError := reflect.Zero(errorType)
		if err := t.step(); err != nil {
			return []reflect.Value{reflect.Zero(was.Out(0)), reflect.ValueOf(&err).Elem()}
		}
		out := invoke(args)
		if s := out[0]; s.Kind() == reflect.String && s.Len() > maxText {
			var err error = boundError("a text that it makes is too large")
			return []reflect.Value{reflect.Zero(was.Out(0)), reflect.ValueOf(&err).Elem()}
		}
		if len(out) == 1 {
			out = append(out, noError)
		}
		return out
	}).Interface()
}
