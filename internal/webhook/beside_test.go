package webhook_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/webhook"
)

// TestBeside calls another webhook with changing answers, which do not affect the answers of celgate.
func TestBeside(t *testing.T) {
	e := engine(t, "testdata/policies.yaml")
	var theirs string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(body), `"uid":"u"`) || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("asked for %s", body)
		}
		if theirs == "" {
			http.Error(w, "gone", http.StatusBadGateway)
			return
		}
		fmt.Fprintf(w, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":%s}`, theirs)
	}))
	defer other.Close()
	var mu sync.Mutex
	var got []webhook.Contrast
	var log strings.Builder
	b := &webhook.Beside{
		URLs:    map[webhook.Phase]string{webhook.Validating: other.URL, webhook.Mutating: other.URL},
		Observe: func(c webhook.Contrast) { mu.Lock(); defer mu.Unlock(); got = append(got, c) },
		Log:     slog.New(slog.NewTextHandler(&log, nil)),
	}
	plain := httptest.NewServer(&webhook.Handler{Engine: func() *celgate.Engine { return e }})
	defer plain.Close()
	server := httptest.NewServer(&webhook.Handler{Engine: func() *celgate.Engine { return e }, Beside: b})
	defer server.Close()
	shadow := httptest.NewServer(&webhook.Handler{Engine: func() *celgate.Engine { return e }, Beside: b, Shadow: true})
	defer shadow.Close()

	const password, fine = `"data":{"password":"x"}`, `"data":{"a":"1"}`
	// the effects of the policies
	labelled := "W3sib3AiOiJhZGQiLCJwYXRoIjoiL21ldGFkYXRhL2xhYmVscyIsInZhbHVlIjp7Im93bmVyIjoiZGV2In19XQ=="
	other2 := "W3sib3AiOiJhZGQiLCJwYXRoIjoiL21ldGFkYXRhL2xhYmVscyIsInZhbHVlIjp7Im93bmVyIjoib3BzIn19XQ=="
	for _, test := range []struct {
		name, path, data, theirs string
		want                     webhook.Agreement
	}{
		{"allowed", "validate", fine, `{"uid":"u","allowed":true}`, webhook.Same},
		{"denied here", "validate", password, `{"uid":"u","allowed":true}`, webhook.OursDenies},
		{"denied there", "validate", fine, `{"uid":"u","allowed":false,"status":{"message":"no"}}`,
			webhook.TheirsDenies},
		{"another message", "validate", password, `{"uid":"u","allowed":false,"status":{"message":"no"}}`,
			webhook.OtherMessage},
		{"warned there", "validate", fine, `{"uid":"u","allowed":true,"warnings":["w"]}`, webhook.OtherWarnings},
		{"same object", "mutate", fine, `{"uid":"u","allowed":true,"patchType":"JSONPatch","patch":"` + labelled + `"}`,
			webhook.Same},
		{"another object", "mutate", fine, `{"uid":"u","allowed":true,"patchType":"JSONPatch","patch":"` + other2 + `"}`, webhook.OtherObject},
		{"no patch", "mutate", fine, `{"uid":"u","allowed":true}`, webhook.OtherObject},
		{"a wrong patch", "mutate", fine, `{"uid":"u","allowed":true,"patchType":"JSONPatch","patch":"W3t9XQ=="}`,
			webhook.NoAnswer},
		{"gone", "validate", fine, ``, webhook.NoAnswer},
		{"no answer", "validate", fine, `null`, webhook.NoAnswer},
		{"of another review", "validate", fine, `{"uid":"x","allowed":true}`, webhook.NoAnswer},
	} {
		t.Run(test.name, func(t *testing.T) {
			body := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE","namespace":"default","name":"c",` +
				`"kind":{"version":"v1","kind":"ConfigMap"},"resource":{"version":"v1","resource":"configmaps"},"userInfo":{"username":"dev"},` +
				`"object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},` + test.data + `}}}`
			theirs = test.theirs
			_, want := post(t, plain.URL+"/"+test.path, "application/json", strings.NewReader(body))
			for _, url := range []string{server.URL, shadow.URL} {
				got = nil
				_, answer := post(t, url+"/"+test.path, "application/json", strings.NewReader(body))
				if url == server.URL && answer != want {
					t.Errorf("the answer is %s, not %s", answer, want)
				}
				b.Wait()
				if len(got) != 1 || got[0].Result != test.want {
					t.Errorf("compared: %+v, not %s", got, test.want)
				}
			}
		})
	}
	if text := log.String(); strings.Contains(text, "result=same") ||
		!strings.Contains(text, `result=ours_denies phase=validate uid=u`) ||
		!strings.Contains(text, `result=object phase=mutate ours="replace /metadata/labels/owner"`) ||
		strings.Contains(text, "ops") {
		t.Errorf("the log:\n%s", text)
	}
}
