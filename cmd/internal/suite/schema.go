package suite

import (
	"encoding/json"
	"maps"
	"strings"
)

// A shape is a JSON Schema.
type shape = map[string]any

var (
	textShape   = shape{"type": "string"}
	objectShape = shape{"type": "object"}
	truthShape  = shape{"type": "boolean"}
)

// JSONSchema returns the JSON Schema (draft 7) of suites and cases, for editors. It is derived from the decoder, but
// less strict: the decoder also checks combinations of members.
func JSONSchema() ([]byte, error) {
	definitions := shape{}
	define := func(name string, s shape) shape {
		definitions[name] = s
		return shape{"$ref": "#/definitions/" + name}
	}
	source := define("source", newUnion(shape{"type": "string", "minLength": 1}, objectShape))
	match := define("text", newUnion(textShape, mappingShape(textFields, nil)))
	verdict := define("verdict", newUnion(match, mappingShape(verdictFields, map[string]shape{
		"message": match, "validation": {"type": "integer", "minimum": 0}, "code": {"type": "integer"},
	})))
	skip := newUnion(textShape, mappingShape(skipFields, map[string]shape{"by": {"type": "string", "enum": matchers}}))
	expect := define("expect", newUnion(
		shape{"type": "string", "enum": []string{"allowed", "denied", "mutated", "untouched", "skipped"}},
		mappingShape(expectFields, map[string]shape{
			"allowed": truthShape, "denied": newUnion(truthShape, newOneOrMore(verdict)), "warnings": newOneOrMore(verdict),
			"audited":          newOneOrMore(verdict),
			"auditAnnotations": {"type": "object", "additionalProperties": newUnion(shape{"type": "null"}, match)},
			"mutated": newUnion(truthShape, shape{"type": "string", "minLength": 1},
				mappingShape(mutatedFields, map[string]shape{
					"object": source, "fields": objectShape,
				}),
			),
			"untouched": truthShape, "idempotent": truthShape, "survives": truthShape, "skipped": newUnion(truthShape, newOneOrMore(skip)),
			"created": {"type": "object", "additionalProperties": shape{"$ref": "#/definitions/expect"}},
		})))
	asked := map[string]shape{
		"object": source, "old": source, "review": source, "patch": objectShape, "oldPatch": objectShape,
		"dryRun": truthShape,
		"workloads": newUnion(truthShape, mappingShape(workloadFields,
			map[string]shape{"podsOf": {"type": "object", "additionalProperties": newOneOrMore(textShape)}})),
		"operation": {"type": "string", "pattern": "^([Cc][Rr][Ee][Aa][Tt][Ee]|[Uu][Pp][Dd][Aa][Tt][Ee]|[Dd][Ee][Ll][Ee][Tt][Ee]|[Cc][Oo][Nn][Nn][Ee][Cc][Tt])$"},
		"groups":    newOneOrMore(textShape), "extra": {"type": "object", "additionalProperties": newOneOrMore(textShape)},
		"state": newOneOrMore(source), "expect": expect,
	}
	row := define("row", mappingShape(rowFields, asked))
	asked["table"] = newOneOrMore(row)
	document := func(kind string, own fields, shapes map[string]shape) shape {
		shapes["apiVersion"], shapes["kind"] = shape{"type": "string", "enum": []string{APIVersion}},
			shape{"type": "string", "enum": []string{kind}}
		s := mappingShape(append(documentFields[:len(documentFields):len(documentFields)], own...), shapes)
		s["required"] = []string{"apiVersion", "kind"}
		return s
	}
	suite := document("Suite", suiteFields, map[string]shape{
		"policies": newOneOrMore(source), "staticPolicies": newOneOrMore(textShape), "state": newOneOrMore(source), "defaults": mappingShape(askedFields, asked),
		"cases": newOneOrMore(define("case", mappingShape(caseFields, asked))),
	})
	suite["required"] = []string{"apiVersion", "kind", "cases"}
	all := newUnion(suite, document("Case", caseFields, asked))
	all["definitions"] = definitions
	all["$schema"], all["title"] = "http://json-schema.org/draft-07/schema#", "Suites and cases of celgate test"
	text, err := json.MarshalIndent(all, "", " ")
	return append(text, '\n'), err
}

// mappingShape returns a mapping with known members, which are strings unless shapes has them.
func mappingShape(known fields, shapes map[string]shape) shape {
	members := shape{}
	for _, f := range known {
		of, ok := shapes[f.name]
		if !ok {
			of = textShape
		}
		described := shape{"description": strings.ReplaceAll(f.doc, "`", "")}
		if of["$ref"] != nil { // does not allow other members beside it
			of = shape{"allOf": []shape{of}}
		}
		maps.Copy(described, of)
		members[f.name] = described
	}
	return shape{"type": "object", "additionalProperties": false, "properties": members}
}

func newUnion(shapes ...shape) shape { return shape{"anyOf": shapes} }

// newOneOrMore returns a list, or its only item.
func newOneOrMore(item shape) shape {
	return newUnion(item, shape{"type": "array", "items": item})
}
