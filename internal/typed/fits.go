package typed

import (
	"github.com/google/cel-go/cel"
	celtypes "github.com/google/cel-go/common/types"

	"github.com/celgate/celgate/internal/shape"
)

// A fit says whether the values of a type are valid at a position.
type fit uint8

const (
	yes     fit = iota
	unknown     // the type of the value or of the position is not known
	partly      // only some values are valid
	no
)

// fits judges a CEL type at a position, and suggests a valid alternative.
func (w *walk) fits(at *shape.Type, got *cel.Type) (fit, string) {
	switch got.Kind() {
	case celtypes.DynKind, celtypes.ErrorKind, celtypes.AnyKind, celtypes.TypeParamKind, celtypes.UnspecifiedKind:
		return unknown, ""
	case celtypes.NullTypeKind:
		if w.patch {
			return yes, ""
		}
		return no, w.toUnset()
	case celtypes.UintKind:
		if !w.patch {
			return no, "an unsigned integer is not converted: wrap it in int(…)"
		}
		if takesText(at) { // a large number becomes text
			return partly, "wrap it in string(…)"
		}
		return w.fits(at, cel.IntType)
	case celtypes.BytesKind:
		if !w.patch {
			return no, "bytes are not converted: wrap them in base64.encode(…) or string(…)"
		}
		return w.fits(at, cel.StringType)
	case celtypes.TimestampKind, celtypes.DurationKind:
		if !w.patch {
			return no, "a " + got.TypeName() + " is not converted: wrap it in string(…)"
		}
		return w.fits(at, cel.StringType)
	}
	if acceptsSeveral(at) {
		return unknown, ""
	}
	switch got.Kind() {
	case celtypes.StructKind:
		return w.structFits(at, got)
	case celtypes.MapKind:
		return w.mapFits(at, got), hint(!w.patch && at.Kind != shape.Map, "write an Object literal")
	case celtypes.ListKind:
		if at.Kind != shape.List {
			return no, ""
		}
		return w.fits(at.Elem, got.Parameters()[0])
	case celtypes.BoolKind:
		return fitWhen(at.Kind == shape.Boolean), ""
	case celtypes.StringKind:
		return fitWhen(takesText(at)), hint(at.Kind == shape.Integer || at.Kind == shape.Number,
			"write a number, or wrap it in int(…)")
	case celtypes.IntKind:
		return fitWhen(takesNumber(at)), hint(takesText(at), "wrap it in string(…)")
	case celtypes.DoubleKind:
		if at.Kind == shape.Integer {
			return partly, "wrap it in int(…)"
		}
		return fitWhen(takesNumber(at)), hint(takesText(at), "wrap it in string(…)")
	}
	return no, ""
}

func fitWhen(does bool) fit {
	if does {
		return yes
	}
	return no
}

func hint(given bool, text string) string {
	if given {
		return text
	}
	return ""
}

// acceptsSeveral reports a type that accepts values of several JSON types, which only some kinds distinguish.
func acceptsSeveral(t *shape.Type) bool { return t.Kind == shape.Any || t.Kind == shape.Union }

func takesText(t *shape.Type) bool {
	switch t.Kind {
	case shape.String, shape.Bytes, shape.Time, shape.MicroTime, shape.Duration, shape.Quantity,
		shape.IntOrString:
		return true
	}
	return false
}

func takesNumber(t *shape.Type) bool {
	switch t.Kind {
	case shape.Integer, shape.Number, shape.Quantity, shape.IntOrString:
		return true
	}
	return false
}

func (w *walk) structFits(at *shape.Type, got *cel.Type) (fit, string) {
	if from, ok := w.placeNamed(got.TypeName()); ok && from.typ != nil && hasMembers(from.typ) {
		return fitOf(at, from.typ), ""
	}
	if at.Kind == shape.Struct || at.Kind == shape.Map {
		return unknown, ""
	}
	return no, ""
}

func (w *walk) mapFits(at *shape.Type, got *cel.Type) fit {
	switch at.Kind {
	case shape.Struct:
		if isOpen(at) {
			return unknown
		}
		return partly
	case shape.Map:
		if key := got.Parameters()[0]; key.Kind() != celtypes.StringKind && key.Kind() != celtypes.DynKind &&
			key.Kind() != celtypes.TypeParamKind {
			return no
		}
		of, _ := w.fits(at.Elem, got.Parameters()[1])
		return of
	}
	return no
}

// fitOf judges the values of one type at a position of another.
func fitOf(at, from *shape.Type) fit {
	if at == from {
		return yes
	}
	if acceptsSeveral(at) || acceptsSeveral(from) {
		return unknown
	}
	switch from.Kind {
	case shape.Boolean:
		return fitWhen(at.Kind == shape.Boolean)
	case shape.Integer, shape.Number:
		return fitWhen(takesNumber(at))
	case shape.List:
		if at.Kind != shape.List {
			return no
		}
		return fitOf(at.Elem, from.Elem)
	case shape.Map:
		switch at.Kind {
		case shape.Map:
			return fitOf(at.Elem, from.Elem)
		case shape.Struct:
			return partly
		}
		return no
	case shape.Struct:
		switch at.Kind {
		case shape.Map:
			return membersFit(from, func(*shape.Field) *shape.Type { return at.Elem })
		case shape.Struct:
			if isOpen(at) || isOpen(from) {
				return unknown
			}
			return membersFit(from, func(f *shape.Field) *shape.Type {
				if same := at.Field(f.Name); same != nil && same.Type.Kind == f.Type.Kind {
					return same.Type
				}
				return nil
			})
		}
		return no
	}
	return fitWhen(takesText(at) || at.Kind == shape.IntOrString && from.Kind == shape.IntOrString)
}

// membersFit judges a struct by its members, one level deep: no if none is valid, partly if some are.
func membersFit(from *shape.Type, place func(*shape.Field) *shape.Type) fit {
	all, any := true, false
	for i := range from.Fields {
		f := &from.Fields[i]
		at := place(f)
		fit := at != nil && (at.Kind == f.Type.Kind || takesText(at) && takesText(f.Type))
		all, any = all && fit, any || fit
	}
	switch {
	case all:
		return yes
	case any:
		return partly
	}
	return no
}
