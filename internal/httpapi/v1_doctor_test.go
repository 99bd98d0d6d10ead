package httpapi_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/doctor"
	"github.com/droverhq/drover/internal/httpapi"
)

// examined has facts of two organisations.
type examined struct{}

func (examined) Examine(context.Context) doctor.Facts {
	return doctor.Facts{Now: time.Now(), Version: "1.2", Bus: doctor.Bus{Aside: 1}, Troubled: []doctor.Troubled{
		{Kind: "instance", Title: "instances", Count: 1, Examples: []doctor.Example{{ID: "u1", Name: "hidden", Org: "umbrella"}}}}}
}

// Operators read what is wrong; nobody else learns anything, not even of her own.
func TestDoctor(t *testing.T) {
	o := newAnnals(t, func(c *httpapi.Config) { c.Doctor = examined{} })
	for _, c := range []struct {
		reason, who string
		status      int
	}{
		{"an operator", "root", http.StatusOK},
		{"a tenant", "alice", http.StatusForbidden},
		{"the administrator of an organisation", "ursula", http.StatusForbidden},
		{"somebody without a token", "", http.StatusUnauthorized},
	} {
		w := o.do(c.who, http.MethodGet, "/api/v1/doctor", "")
		status, text := w.Code, w.Body.String()
		if status != c.status || status != http.StatusOK && (strings.Contains(text, "umbrella") || strings.Contains(text, "hidden")) {
			t.Errorf("%s gets %d: %s", c.reason, status, text)
		}
	}
	var d v1.Diagnosis
	if err := json.Unmarshal(o.do("root", http.MethodGet, "/api/v1/doctor", "").Body.Bytes(), &d); err != nil || d.Healthy || d.Version != "1.2" || len(d.Findings) != 2 || d.Findings[0].ID != "bus-aside" || len(d.Findings[0].Do) == 0 {
		t.Errorf("%v, %+v", err, d)
	}
}
