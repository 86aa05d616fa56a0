//go:build !nocerts

package registry

import (
	"errors"
	"fmt"
	"math"
	"slices"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/utils/ptr"
)

// The limits of estimated costs, of one expression and of all in a schema.
const (
	mostExpressionCost = 10_000_000
	mostSchemaCost     = 100_000_000
)

// A ruleScope is a schema with the types of its values in expressions (apiextensions-apiserver
// pkg/apis/apiextensions/validation/cel_validation.go v0.37.2).
type ruleScope struct {
	parent *ruleScope
	props  *schemaProps
	step   func(typedSchema) *typedSchema // from the type of the parent
	inRule bool                           // the schema, or one around it, has rules
	most   *uint64                        // how many values there may be; nil: unbounded
	costs  *ruleCosts

	known *typedSchema
	err   error
}

// A typedSchema is a schema and its type in expressions.
type typedSchema struct {
	schema *structural.Structural
	decl   *apiservercel.DeclType
}

// ruleCosts are the estimated costs of all expressions of a schema, and the largest ones.
type ruleCosts struct {
	total uint64
	most  []ruleCost
}

type ruleCost struct {
	path *field.Path
	cost uint64
}

func (c *ruleCosts) add(path *field.Path, cost uint64) {
	if c.total += cost; c.total < cost {
		c.total = math.MaxUint64
	}
	if cost < mostSchemaCost/100 {
		return
	}
	c.most = append(c.most, ruleCost{path, cost})
	slices.SortStableFunc(c.most, func(a, b ruleCost) int {
		switch {
		case a.cost > b.cost:
			return -1
		case a.cost < b.cost:
			return 1
		}
		return 0
	})
	c.most = c.most[:min(len(c.most), 4)]
}

func newRuleScope(s *schemaProps) *ruleScope {
	return &ruleScope{props: s, inRule: len(s.XValidations) > 0, most: ptr.To(uint64(1)), costs: &ruleCosts{}}
}

// child returns the scope of a schema within; step leads to its type.
func (c *ruleScope) child(s *schemaProps, step func(typedSchema) *typedSchema) *ruleScope {
	if c == nil || s == nil {
		return nil
	}
	in := &ruleScope{parent: c, props: s, step: step, inRule: c.inRule || len(s.XValidations) > 0, costs: c.costs}
	if more := mostItems(c.props); c.most != nil && more != nil {
		in.most = ptr.To(multiply(*c.most, *more))
	}
	return in
}

func stepProperty(name string) func(typedSchema) *typedSchema {
	return func(t typedSchema) *typedSchema {
		of, known := t.schema.Properties[name]
		escaped, ok := apiservercel.Escape(name)
		if t.schema.Properties == nil || !ok {
			return nil
		}
		if member, ok := t.decl.Fields[escaped]; ok && known {
			return &typedSchema{&of, member.Type}
		}
		return nil
	}
}

func stepItem(t typedSchema) *typedSchema {
	if t.schema.Items == nil {
		return nil
	}
	return &typedSchema{t.schema.Items, t.decl.ElemType}
}

func stepValue(t typedSchema) *typedSchema {
	if t.schema.AdditionalProperties == nil {
		return nil
	}
	return &typedSchema{t.schema.AdditionalProperties.Structural, t.decl.ElemType}
}

// typeOf returns the type of the schema; nil if no rule sees it.
func (c *ruleScope) typeOf() (*typedSchema, error) {
	if !c.inRule {
		return nil, nil
	}
	if c.known != nil || c.err != nil {
		return c.known, c.err
	}
	if c.parent != nil {
		of, err := c.parent.typeOf()
		if err != nil {
			c.err = err
			return nil, err
		}
		if of != nil {
			if c.known = c.step(*of); c.known != nil {
				return c.known, nil
			}
		}
	}
	made, err := structural.NewStructural(c.props)
	if err != nil {
		c.err = err
		return nil, err
	}
	decl := model.SchemaDeclType(made, c.parent == nil || c.props.XEmbeddedResource)
	if decl == nil {
		c.err = errors.New("unable to convert structural schema to CEL declarations")
		return nil, c.err
	}
	c.known = &typedSchema{made, decl}
	return c.known, nil
}

// mostItems returns how many values of the schemas within a value may have; nil: unbounded.
func mostItems(s *schemaProps) *uint64 {
	limit := func(n *int64) *uint64 {
		if n == nil {
			return nil
		}
		return ptr.To(uint64(max(*n, 0)))
	}
	switch {
	case s.Type == "array":
		return limit(s.MaxItems)
	case s.Type == "object" && s.AdditionalProperties != nil:
		return limit(s.MaxProperties)
	}
	return ptr.To(uint64(1))
}

func multiply(a, b uint64) uint64 {
	switch {
	case a == 0:
		return 0
	case math.MaxUint64/a < b:
		return math.MaxUint64
	}
	return a * b
}

// compile judges the expressions of the rules of a schema.
func (d *definition) compile(s *schemaProps, scope *ruleScope, path *field.Path, in schemaNode) {
	path = path.Child("x-kubernetes-validations")
	add := func(err *field.Error) { d.late = append(d.late, err) }
	of, err := scope.typeOf()
	switch {
	case err != nil:
		add(field.InternalError(path, fmt.Errorf(
			"internal error: failed to construct type information for x-kubernetes-validations rules: %w", err)))
		return
	case of == nil:
		add(field.InternalError(path,
			errors.New("internal error: failed to retrieve type information for x-kubernetes-validations")))
		return
	}
	results, err := cel.Compile(of.schema, of.decl, celconfig.PerCallLimit, d.rules.Base, d.rules)
	if err != nil {
		add(field.InternalError(path, err))
		return
	}
	spend := func(at *field.Path, what string, cost uint64) {
		if !in.unchanged && cost > mostExpressionCost {
			add(field.Forbidden(at, "estimated "+costProblem(what, cost, mostExpressionCost)))
		}
		scope.costs.add(at, cost)
	}
	for i, result := range results {
		at, message := path.Index(i).Child("rule"), path.Index(i).Child("messageExpression")
		times := result.MaxCardinality
		if scope.most != nil {
			times = *scope.most
		}
		spend(at, "rule cost", multiply(result.MaxCost, times))
		if wrong := result.Error; wrong != nil {
			if wrong.Type == apiservercel.ErrorTypeRequired {
				add(field.Required(at, wrong.Detail))
			} else {
				add(field.Invalid(at, s.XValidations[i], wrong.Detail))
			}
		}
		if wrong := result.MessageExpressionError; wrong != nil {
			add(field.Invalid(message, s.XValidations[i], wrong.Detail))
		} else if result.MessageExpression != nil {
			spend(message, "messageExpression cost", result.MessageExpressionMaxCost)
		}
		optional := s.XValidations[i].OptionalOldSelf
		if result.UsesOldSelf && in.uncorrelated != nil {
			add(field.Invalid(at, s.XValidations[i].Rule, fmt.Sprintf(
				"oldSelf cannot be used on the uncorrelatable portion of the schema within %v", in.uncorrelated)))
		} else if !result.UsesOldSelf && optional != nil {
			add(field.Invalid(path.Index(i).Child("optionalOldSelf"), *optional,
				"may not be set if oldSelf is not used in rule"))
		}
	}
}

// costProblem describes an estimated cost above a limit.
func costProblem(what string, cost, limit uint64) string {
	factor := float64(cost) / float64(limit)
	text := fmt.Sprintf("%.1fx", factor)
	switch {
	case factor > 100:
		text = "more than 100x"
	case factor < 1.5:
		text = fmt.Sprintf("%fx", factor) // instead of 1.0x
	}
	return what + " exceeds budget by factor of " + text + " (try simplifying the rule, or adding maxItems, " +
		"maxProperties, and maxLength where arrays, maps, and strings are declared)"
}

// judgeCosts judges the estimated cost of all rules of a schema.
func (d *definition) judgeCosts(costs *ruleCosts, path *field.Path) {
	if costs.total <= mostSchemaCost {
		return
	}
	for _, expensive := range costs.most {
		d.add(field.Forbidden(expensive.path,
			"contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"))
	}
	d.add(field.Forbidden(path, costProblem(
		"x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema", costs.total, mostSchemaCost)))
}
