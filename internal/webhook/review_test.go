package webhook

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
)

// TestDecodeNoTime reads a Deployment as kube-apiserver 1.33 sends it.
func TestDecodeNoTime(t *testing.T) {
	r, err := decode(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"UPDATE",` +
		`"object":{"metadata":{"name":"d","creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{"template":{"metadata":{"creationTimestamp":null},` +
		`"spec":{"volumes":[{"ephemeral":{"volumeClaimTemplate":{"metadata":{"creationTimestamp":null}}}}]}}},"data":{"creationTimestamp":null}},` +
		`"oldObject":{"metadata":{"name":"d","creationTimestamp":null}}}}`,
	)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal([]any{r.Object, r.OldObject})
	if err != nil {
		t.Fatal(err)
	}
	const want = `[{"data":{"creationTimestamp":null},"metadata":{"creationTimestamp":"2026-01-01T00:00:00Z","name":"d"},"spec":{"template":{"metadata":{},` +
		`"spec":{"volumes":[{"ephemeral":{"volumeClaimTemplate":{"metadata":{}}}}]}}}},{"metadata":{"name":"d"}}]`
	if string(got) != want {
		t.Errorf("\nhave %s\nwant %s", got, want)
	}
}

// TestRead reads the bodies of servers in one pass, and leaves others to unmarshal.
func TestRead(t *testing.T) {
	for _, path := range []string{"testdata/review.json", "testdata/deployment.json"} {
		body, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !agree(t, string(body)) {
			t.Errorf("%s is not read in one pass", path)
		}
	}
	for _, body := range []string{
		`{}`, `{"request":{}}`, `{"request":{"object":null,"oldObject":{"a":[1]},"options":{}}}`,
		`{"request":{"userInfo":{"username":"u","uid":"i","groups":[],"extra":{"a":["b"],"c":[]}},"dryRun":true,"more":[{}]}}`,
		`{"request":{"requestKind":{"group":"g","version":"v","kind":"k"},"requestResource":{"resource":"r"},"requestSubResource":"s"}}`,
	} {
		if !agree(t, body) {
			t.Errorf("%s is not read in one pass", body)
		}
	}
	for _, body := range []string{
		``, `null`, `[]`, `{"apiVersion":"a","apiVersion":"b"}`, `{"request":null}`, `{"response":{}}`,
		`{"request":{"uid":null}}`, `{"request":{"uid":1}}`,
		`{"request":{"object":{"a":1},"object":{"b":2}}}`, `{"request":{"object":[]}}`, `{"request":{"dryRun":"true"}}`,
		`{"request":{"userInfo":{"groups":[1]}}}`,
		`{"request":{"kind":{"kind":"a"},"kind":{"group":"b"}}}`, `{"request":{"kind":{"kind":null}}}`, `{"request":{}`,
		`{"request":{}}}`,
	} {
		if agree(t, body) {
			t.Errorf("%s is read in one pass", body)
		}
	}
}

// FuzzRead compares the one-pass reader with unmarshal.
func FuzzRead(f *testing.F) {
	for _, path := range []string{"testdata/review.json", "testdata/deployment.json"} {
		body, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(body))
	}
	f.Add(`{"apiVersion":"a","kind":"k","request":{"userInfo":{"extra":{"a":["b"]}},"requestKind":{"kind":"k"},"options":{"a":1.5}}}`)
	f.Fuzz(func(t *testing.T, body string) { agree(t, body) })
}

// agree reports whether a body is read in one pass, and fails the test if that makes another review of it.
func agree(t *testing.T, body string) bool {
	t.Helper()
	have, ok := read(body)
	if !ok {
		return false
	}
	want, err := unmarshal([]byte(body))
	if err != nil {
		t.Fatalf("%s: read, but %v", body, err)
	}
	if want.Request != nil {
		want.Request.nulls = have.Request.nulls
	}
	if !reflect.DeepEqual(have, want) {
		t.Errorf("%s\nhave %+v\nwant %+v", body, have.Request, want.Request)
	}
	return true
}

// TestReadDeep leaves bodies that would need a deep stack to unmarshal, which has its own bound.
func TestReadDeep(t *testing.T) {
	body := `{"request":{"object":` + strings.Repeat(`{"a":`, 1<<20) + strings.Repeat(`}`, 1<<20) + `}}`
	if agree(t, body) {
		t.Error("read")
	}
	if _, err := decode(body); err == nil || !strings.Contains(err.Error(), "max depth") {
		t.Error(err)
	}
}

// BenchmarkDecode reads a review in one pass, and as unmarshal does.
func BenchmarkDecode(b *testing.B) {
	body, err := os.ReadFile("testdata/deployment.json")
	if err != nil {
		b.Fatal(err)
	}
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, ok := read(string(body)); !ok {
				b.Fatal("not read")
			}
		}
	})
	b.Run("unmarshal", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := unmarshal(body); err != nil {
				b.Fatal(err)
			}
		}
	})
}
