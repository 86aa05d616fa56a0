package cli

import "testing"

func TestTellReadings(t *testing.T) {
	object := func(created, uid string) map[string]any {
		return map[string]any{"metadata": map[string]any{"creationTimestamp": created, "uid": uid}}
	}
	if got := tellReadings("1.36", "1.37", object("10:00:00", "a"), object("10:00:01", "a")); got != "" {
		t.Errorf("the second in which each version was asked is a cause: %s", got)
	}
	if got := tellReadings("1.36", "1.37", object("10:00:00", "a"), object("10:00:00", "b")); got == "" {
		t.Error("another value is not a cause")
	}
}
