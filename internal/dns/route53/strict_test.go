package route53_test

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/droverhq/drover/internal/dns"
)

// strict stands before the emulator and keeps the service's rules about CREATE,
// where the emulator is wrong both ways: it creates over what exists, and refuses
// to create again what was deleted. What may be created is passed on as an UPSERT.
func strict(t *testing.T, emulator string, hand func(zone string) *owner) string {
	to, err := url.Parse(emulator)
	if err != nil {
		t.Fatal(err)
	}
	pass := httputil.NewSingleHostReverseProxy(to)
	var one sync.Mutex // a check and its change are one
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, changes := strings.CutPrefix(strings.TrimSuffix(strings.TrimSuffix(r.URL.Path, "/"), "/rrset"), "/2013-04-01/hostedzone/")
		if r.Method != http.MethodPost || !changes || !strings.Contains(r.URL.Path, "/rrset") {
			pass.ServeHTTP(w, r)
			return
		}
		one.Lock()
		defer one.Unlock()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if why := refused(t, hand(id), body); why != "" {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `<?xml version="1.0"?><InvalidChangeBatch xmlns="https://route53.amazonaws.com/doc/2013-04-01/"><Messages><Message>%s</Message></Messages><RequestId>1</RequestId></InvalidChangeBatch>`, why)
			return
		}
		body = bytes.ReplaceAll(body, []byte("<Action>CREATE</Action>"), []byte("<Action>UPSERT</Action>"))
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// refused says why the service would not make a batch.
func refused(t *testing.T, hand *owner, body []byte) string {
	var batch struct {
		Changes []struct {
			Action string
			Name   string   `xml:"ResourceRecordSet>Name"`
			Type   string   `xml:"ResourceRecordSet>Type"`
			Values []string `xml:"ResourceRecordSet>ResourceRecords>ResourceRecord>Value"`
		} `xml:"ChangeBatch>Changes>Change"`
	}
	if err := xml.Unmarshal(body, &batch); err != nil {
		t.Error(err)
	}
	there := map[string]map[string]string{} // values by name and type
	for _, s := range hand.sets(t) {
		name := dns.Canonical(*s.Name)
		if there[name] == nil {
			there[name] = map[string]string{}
		}
		for _, r := range s.ResourceRecords {
			there[name][string(s.Type)] += *r.Value + " "
		}
	}
	for _, c := range batch.Changes {
		name := dns.Canonical(c.Name)
		values := strings.Join(c.Values, " ") + " "
		switch c.Action {
		case "DELETE":
			if there[name][c.Type] != values {
				return fmt.Sprintf("Tried to delete resource record set [name='%s', type='%s'] but the values provided do not match the current values", c.Name, c.Type)
			}
			delete(there[name], c.Type)
		case "CREATE":
			if there[name][c.Type] != "" {
				return fmt.Sprintf("Tried to create resource record set [name='%s', type='%s'] but it already exists", c.Name, c.Type)
			}
			if there[name]["CNAME"] != "" || c.Type == "CNAME" && len(there[name]) > 0 {
				return fmt.Sprintf("RRSet of type %s with DNS name %s is not permitted as it conflicts with other records with the same DNS name", c.Type, c.Name)
			}
			if there[name] == nil {
				there[name] = map[string]string{}
			}
			there[name][c.Type] = values
		}
	}
	return ""
}
