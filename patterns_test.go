package celgate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/celgate/celgate"
)

// A policy whose regular expressions take minutes to be read is refused where celgate stands in for the server, and the
// others are in force.
func TestSlowPatterns(t *testing.T) {
	slow := strings.Replace(benchValidation, "object.spec.containers.all(c, c.image.startsWith('registry.example.com/'))",
		"object.metadata.name.matches('(?i)"+strings.Repeat("[B-𞥂]", 5000)+"')", 1)
	ordinary := strings.ReplaceAll(strings.Replace(benchValidation,
		"startsWith('registry.example.com/')", "matches('(?i)^[a-z0-9.-]+/')", 1), "registry", "other")
	ordinary = strings.Replace(ordinary, "name: everywhere", "name: others", 1)
	set, err := load(slow + "---" + ordinary)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	engine, err := celgate.New(set, celgate.Options{WithoutQuirks: true, Limits: celgate.ServedLimits()})
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	rejected := engine.Rejections()
	if len(rejected) != 1 || !strings.Contains(rejected[0].Status.Message, "takes about") {
		t.Errorf("%+v", rejected)
	}
}
