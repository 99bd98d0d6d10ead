package dns_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/droverhq/drover/internal/dns"
	"github.com/droverhq/drover/internal/dns/dnstest"
	"github.com/droverhq/drover/internal/dns/rfc2136"
	"github.com/droverhq/drover/internal/dns/route53"
	"github.com/droverhq/drover/internal/fault"
)

func TestRead(t *testing.T) {
	providers := map[string]dns.Open{
		"memory": func(s dns.Settings) (dns.Provider, error) {
			return dns.Libdns(dnstest.NewMemory()), s.Check("memory", "colour")
		},
		"broken": func(dns.Settings) (dns.Provider, error) { return nil, errors.New("it is broken") },
	}
	for _, tc := range []struct {
		reason, text string
		zones        int
		wrong        []string // what the error says
	}{
		{"nothing is no zones", "", 0, nil},
		{"two zones", "installation: there\nzones:\n- {name: a.test, provider: memory, settings: {colour: red}}\n- {name: b.test, provider: memory, servers: [192.0.2.1]}", 2, nil},
		{"it is no YAML", "zones: [", 0, []string{"cannot read"}},
		{"a misspelt field", "zone: []", 0, []string{"unknown field"}},
		{"all mistakes at once", "zones:\n- {name: a.test, provider: memry}\n- {name: b.test, provider: broken}\n- {name: c.test, provider: memory, settings: {color: red}}", 0,
			[]string{`zones[0]: there is no DNS provider "memry"; there are broken, memory`, "zones[1]: it is broken", `zones[2]: the DNS provider memory has no setting "color"`}},
		{"a secret that was written into the file is not repeated", "zones:\n- name: a.test\n  provider: memory\n  secret: hunter2\n", 0, []string{"unknown field"}},
	} {
		c, err := dns.Read([]byte(tc.text), "here", providers)
		if len(tc.wrong) > 0 {
			for _, w := range tc.wrong {
				if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), w) || strings.Contains(err.Error(), "hunter2") {
					t.Errorf("%s: got %v, want %q", tc.reason, err, w)
				}
			}
			continue
		}
		if err != nil || len(c.Zones) != tc.zones {
			t.Errorf("%s: got %+v, %v", tc.reason, c, err)
		}
		if want := map[bool]string{true: "there", false: "here"}[strings.HasPrefix(tc.text, "installation")]; c.Installation != want {
			t.Errorf("%s: the installation is %q", tc.reason, c.Installation)
		}
	}
}

func TestTheDocumentedFileIsRead(t *testing.T) {
	page, err := os.ReadFile("../../docs/dns.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "```yaml\n")
	text, _, _ = strings.Cut(text, "```")
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("c2VjcmV0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	text = strings.Replace(text, "/etc/drover/tsig.secret", secret, 1)
	c, err := dns.Read([]byte(text), "", map[string]dns.Open{"rfc2136": rfc2136.New, "route53": route53.New})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := dns.New(c); r == nil || err != nil || len(c.Zones) != 2 {
		t.Errorf("got %v, %v of %+v", r, err, c)
	}
}
