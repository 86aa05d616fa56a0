package webhook

import (
	"encoding/json"
	"testing"
)

// TestDecodeNoTime reads a Deployment as kube-apiserver 1.33 sends it.
func TestDecodeNoTime(t *testing.T) {
	r, err := decode([]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"UPDATE",` +
		`"object":{"metadata":{"name":"d","creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{"template":{"metadata":{"creationTimestamp":null},` +
		`"spec":{"volumes":[{"ephemeral":{"volumeClaimTemplate":{"metadata":{"creationTimestamp":null}}}}]}}},"data":{"creationTimestamp":null}},` +
		`"oldObject":{"metadata":{"name":"d","creationTimestamp":null}}}}`))
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
