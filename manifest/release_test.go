package manifest

import (
	"reflect"
	"strings"
	"testing"
)

// TestRelease releases objects and reads them again: they are equal, and in between their names are still known.
func TestRelease(t *testing.T) {
	const text = "# a comment\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: b, labels: {x: y}}\ndata:\n  k: |\n    1\n    2\n" +
		"---\r\napiVersion: v1\r\nkind: Pod\r\nmetadata:\r\n  generateName: p-\r\nspec: {nodeName: &n x, hostname: *n}\r\n" +
		"---\napiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Secret, metadata: {name: s}, data: {k: dg==}}\n" +
		"---\n{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"metadata\": {\"name\": \"j\"}, \"data\": {\"k\": \"v\"}}\n" +
		"---\napiVersion: v1\nkind: Odd\nmetadata: []\n"
	read := func() []*Document {
		docs, problems := Read(strings.NewReader(text), "f.yaml")
		if len(problems) > 0 || len(docs) != 5 {
			t.Fatal(problems, len(docs))
		}
		return docs
	}
	want := read()
	for i, d := range read() {
		place := d.Position()
		d.Release()
		d.Release()
		small := d.Item == "" && !d.Source.json && i != 4
		if small != (len(d.Object) == 3 && d.Object["data"] == nil && d.Object["spec"] == nil) && i != 4 {
			t.Errorf("%d: %v", i, d.Object)
		}
		if d.Object["kind"] != want[i].Object["kind"] || d.Position() != place {
			t.Errorf("%d: %v", i, d.Object)
		}
		d.Restore()
		if !reflect.DeepEqual(d.Object, want[i].Object) || d.Position() != place {
			t.Errorf("%d: %v, not %v", i, d.Object, want[i].Object)
		}
		d.Restore()
	}
}
