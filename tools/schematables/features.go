package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
)

// In the source, a gate has a line for every minor in which it changed, and the last one applies. Up to 1.33 some gates
// have only their current state, on one line.
var (
	featureGate    = regexp.MustCompile(`(?m)^\t(?:\w+\.)?(\w+): \{\n((?:\t\t.*\n)+)\t\},$`)
	featureDefault = regexp.MustCompile(`Version: version\.MustParse\("[0-9.]+"\), +Default: (true|false)`)
	featureNow     = regexp.MustCompile(`(?m)^\t(?:\w+\.)?(\w+): +\{Default: (true|false),`)
)

// introduced are the first minors that have the gates by whose names celgate's rules ask. A minor before behaves as if
// the gate were off. A name that ends in Rule is celgate's: a rule without a gate replaced a stricter one.
var introduced = map[string]string{
	"ContainerRestartPolicyRule":           "1.34",
	"EnvFiles":                             "1.34",
	"PodLifecycleSleepActionAllowZero":     "1.32",
	"PreferSameTrafficDistribution":        "1.33",
	"RelaxedServiceNameValidation":         "1.34",
	"RestartAllContainersOnContainerExits": "1.35",
	"StrictIPCIDRValidation":               "1.33",
	"UserNamespacesHostNetworkSupport":     "1.35",
}

// readFeatures returns the feature gates of the kube-apiserver of a minor that are off by default, sorted.
func readFeatures(dir, minor string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*kube_features.go"))
	if err != nil {
		return nil, err
	}
	on := map[string]string{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, gate := range featureNow.FindAllStringSubmatch(string(raw), -1) {
			on[gate[1]] = gate[2]
		}
		for _, gate := range featureGate.FindAllStringSubmatch(string(raw), -1) {
			if changes := featureDefault.FindAllStringSubmatch(gate[2], -1); len(changes) > 0 { // else what it requires
				on[gate[1]] = changes[len(changes)-1][1]
			}
		}
	}
	var off []string
	for name, value := range on {
		if value == "false" {
			off = append(off, name)
		}
	}
	for name, first := range introduced {
		if _, exists := on[name]; !exists && minor < first { // the minors have as many digits
			off = append(off, name)
		}
	}
	if len(on) < 100 || len(off) == 0 {
		return nil, fmt.Errorf("%s: only %d feature gates, %d of them off: are they written in another way?", dir,
			len(on), len(off))
	}
	slices.Sort(off)
	return off, nil
}
