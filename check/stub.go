package check

import "github.com/celgate/celgate/internal/effects"

var traps, interplay []*Analyzer

var paramsRoot = effects.At("params")
