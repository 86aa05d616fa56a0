package webhook

import (
	"encoding/json"
	"os"
	"reflect"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/celgate/celgate"
)

// TestDecodeAsLibrary compares the request that the handler reads from a body with the result of [celgate.FromReview]
// for the same review.
func TestDecodeAsLibrary(t *testing.T) {
	bodies := []string{
		`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"DELETE","name":"n","namespace":"s",` +
			`"oldObject":{"metadata":{"creationTimestamp":null},"n":[1,1.5,null]},"dryRun":true,"subResource":"status",` +
			`"kind":{"group":"g","version":"v","kind":"K"},"requestKind":{"group":"g","version":"w","kind":"K"},` +
			`"resource":{"group":"g","version":"v","resource":"ks"},"requestResource":{"group":"g","version":"w","resource":"ks"},` +
			`"requestSubResource":"status","userInfo":{"username":"a","uid":"b","groups":["c"],"extra":{"d":["e"]}},"options":{"a":1}}}`,
	}
	for _, path := range []string{"testdata/review.json", "testdata/deployment.json"} {
		body, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		bodies = append(bodies, string(body))
	}
	for _, body := range bodies {
		want, err := decode(body)
		if err != nil {
			t.Fatal(err)
		}
		var review admissionv1.AdmissionReview
		if err := json.Unmarshal([]byte(body), &review); err != nil {
			t.Fatal(err)
		}
		got, err := celgate.FromReview(review.Request)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got.Request(), want) {
			t.Errorf("%s\nhave %+v\nwant %+v", body, got.Request(), want)
		}
	}
}
