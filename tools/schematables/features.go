package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
)

var (
	featureGate    = regexp.MustCompile(`(?m)^\t(?:genericfeatures\.|apiextensionsfeatures\.)?(\w+): \{\n((?:\t\t.*\n)+)\t\},$`)
	featureDefault = regexp.MustCompile(`Version: version\.MustParse\("[0-9.]+"\), +Default: (true|false)`)
)

// readFeatures returns the feature gates of kube-apiserver that are off by default, sorted. In the source, each gate
// has a line for every minor in which it changed; the last one counts.
func readFeatures(dir string) ([]string, error) {
	file := filepath.Join(dir, "kube_features.go")
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var off []string
	all := 0
	for _, gate := range featureGate.FindAllStringSubmatch(string(raw), -1) {
		changes := featureDefault.FindAllStringSubmatch(gate[2], -1)
		if len(changes) == 0 {
			continue // what the gate depends on
		}
		all++
		if changes[len(changes)-1][1] == "false" {
			off = append(off, gate[1])
		}
	}
	if all < 100 || len(off) == 0 {
		return nil, fmt.Errorf("%s: only %d feature gates, %d of them off: is it written in another way?", file, all,
			len(off))
	}
	slices.Sort(off)
	return off, nil
}
