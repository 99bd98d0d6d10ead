package httpapi_test

import (
	"io"
	"strings"
	"testing"
)

// Templates are seen by those who may plan environments of them, wherever one looks.
func TestTemplatesThatOthersPlan(t *testing.T) {
	s := newSite(t)
	s.bring("open", "1", "")
	s.bring("narrow", "1", "  permissions: {plan: {users: [alice]}}\n")
	for _, path := range []string{"/api/v1/templates", "/api/v1/templateversions", "/api/v1/search?q=narrow", "/api/v1/changes?limit=1000", "/api/v1/search?q=open", "/api/v1/templates?search=name+%3D+narrow"} {
		for who, sees := range map[string]bool{"alice": true, "root": true, "bob": false} {
			resp := s.want(200, who, "GET", path, "", nil)
			data, _ := io.ReadAll(resp.Body)
			if !strings.HasSuffix(path, "open") && strings.Contains(string(data), `"narrow`) != sees {
				t.Errorf("%s at %s: %s", who, path, data)
			}
			if !strings.Contains(path, "narrow") && !strings.Contains(string(data), `"open`) {
				t.Errorf("%s does not see at %s what is for everybody: %s", who, path, data)
			}
		}
	}
	s.want(200, "alice", "GET", "/api/v1/templates/narrow", "", nil)
	s.want(404, "bob", "GET", "/api/v1/templates/narrow", "", nil)
	s.want(404, "bob", "GET", "/api/v1/templateversions/narrow@1", "", nil)
	s.want(404, "bob", "GET", "/api/v1/templates/narrow/history", "", nil)
	s.want(200, "bob", "GET", "/api/v1/templates/open", "", nil)
}
