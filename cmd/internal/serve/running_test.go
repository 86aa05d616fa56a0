package serve

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestRunningTaken tests a handler that continues after its connection was used for the answer: the request no longer
// counts as running.
func TestRunningTaken(t *testing.T) {
	var r running
	answered, end := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(r.count(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n, _ := r.summarize(); n != 1 {
			t.Errorf("%d requests before the answer", n)
		}
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		fmt.Fprint(conn, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
		conn.Close()
		<-end
		close(answered)
	})))
	defer server.Close()
	response, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if n, longest := r.summarize(); n != 0 || longest != 0 {
		t.Errorf("%d requests after the answer, the longest for %v", n, longest)
	}
	close(end)
	<-answered
}
