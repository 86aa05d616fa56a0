// Package heap lets a program start without collecting garbage. The initialisation of the packages that a program of
// Kubernetes links allocates about as much as the runtime accepts before its first collection, so that short commands
// would collect up to three times; a program imports this package for its effect.
package heap

import (
	"os"
	"runtime"
	"runtime/debug"
)

// percent puts the first collection at 16 MiB instead of 4: what the runtime starts with is multiplied by percent/100.
const percent = 400

// The path of this package sorts before those of most modules, and its imports are initialised early, so that this runs
// before the initialisation of nearly all other packages.
func init() {
	if os.Getenv("GOGC") == "" {
		delay(percent)
	}
}

// delay sets the percentage of growth until the first collection has ended.
func delay(percent int) {
	before := debug.SetGCPercent(percent)
	runtime.AddCleanup(new([16]byte), func(before int) { debug.SetGCPercent(before) }, before)
}
