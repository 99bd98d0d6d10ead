package rest_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/droverhq/drover/test/servers/rest"
)

func TestAsk(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Token") != "a" {
			http.Error(w, "who are you?", http.StatusForbidden)
			return
		}
		io.Copy(w, r.Body)
	}))
	defer s.Close()
	known := rest.Client{URL: s.URL, Header: http.Header{"X-Token": {"a"}}}
	var text []byte
	if err := known.Ask(t.Context(), "PUT", "/x", []byte("plain"), &text); err != nil || string(text) != "plain" {
		t.Errorf("bytes: %q, %v", text, err)
	}
	var value struct{ A int }
	if err := known.Ask(t.Context(), "PUT", "/x", map[string]int{"A": 7}, &value); err != nil || value.A != 7 {
		t.Errorf("a value: %v, %v", value, err)
	}
	if err := known.Ask(t.Context(), "GET", "/x", nil, nil); err != nil {
		t.Errorf("nothing: %v", err)
	}
	err := rest.Client{URL: s.URL}.Ask(t.Context(), "GET", "/x", nil, nil)
	if !rest.Is(err, 403) || rest.Is(err, 404) || err.Error() != "GET /x answers 403: who are you?" {
		t.Errorf("a stranger: %v", err)
	}
}
