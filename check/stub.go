package check

import "github.com/celgate/celgate/internal/effects"

var mutations, traps, interplay []*Analyzer

var paramsRoot = effects.At("params")

type presence struct{}
