package app_test

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/droverhq/drover/internal/app"
	"github.com/droverhq/drover/internal/fault"
)

// Nothing is opened before: the directories would be there.
func TestPlaintextIsRefusedBeforeAnythingStarts(t *testing.T) {
	for _, tc := range []struct {
		reason, place string // place: empty, it is allowed
		settings      app.Settings
	}{
		{"every address", "listen", app.Settings{Listen: "0.0.0.0:0"}},
		{"every address, shortly", "listen", app.Settings{Listen: ":0"}},
		{"an address of the network", "listen", app.Settings{Listen: "192.0.2.7:0"}},
		{"where others come", "server", app.Settings{PublicURL: "http://drover.example.org"}},
		{"the driver prefers encryption, and goes on without", "database", app.Settings{Database: "postgres://u@db.example.org/x"}},
		{"likewise", "database", app.Settings{Database: "postgres://u@db.example.org/x?sslmode=prefer"}},
		{"it begins without", "database", app.Settings{Database: "postgres://u@db.example.org/x?sslmode=allow"}},
		{"never", "database", app.Settings{Database: "postgres://u@db.example.org/x?sslmode=disable"}},
		{"one of several hosts", "database", app.Settings{Database: "postgres://u@127.0.0.1,db.example.org/x?sslmode=disable"}},
		{"the broker", "bus", app.Settings{Bus: "rabbitmq", BusOptions: []string{"url=amqp://mq.example.org"}}},
		{"Vault, where credentials come from", "vault", app.Settings{Vault: "http://vault.example.org:8200"}},
		{"Vault by a name of Consul's, which may be anywhere", "vault", app.Settings{Vault: "http://vault.service.consul", Consul: "http://127.0.0.1:8500"}},
		{"Consul, which says where everybody is", "consul", app.Settings{Consul: "http://consul.example.org:8500"}},
		{"one of two brokers", "bus", app.Settings{Bus: "rabbitmq", BusOptions: []string{"url=amqps://mq.example.org amqp://other.example.org"}}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			tc.settings.DataDir = t.TempDir() + "/none"
			if tc.settings.Listen == "" {
				tc.settings.Listen = "127.0.0.1:0"
			}
			others := slices.DeleteFunc([]string{"listen", "server", "database", "bus", "vault", "consul"}, func(p string) bool { return p == tc.place })
			for _, allowed := range [][]string{nil, others} {
				tc.settings.Plaintext = allowed
				_, err := app.New(t.Context(), app.Config{Settings: tc.settings})
				if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "--plaintext "+tc.place) {
					t.Fatalf("with %v: %v", allowed, err)
				}
			}
			if _, err := os.Stat(tc.settings.DataDir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("something was made before: %v", err)
			}
			if err := app.Plain(tc.settings, tc.place); err != nil {
				t.Errorf("where it is named: %v", err)
			}
		})
	}
	for reason, s := range map[string]app.Settings{
		"loopback":                  {Listen: "127.0.0.1:0"},
		"loopback of IPv6":          {Listen: "[::1]:0", Database: "postgres://u@[::1]/x"},
		"a name of this machine":    {Listen: "localhost:0", Database: "postgres://u@localhost/x", PublicURL: "http://localhost:8000"},
		"a socket":                  {Listen: "localhost:0", Database: "postgres://u@/x?host=/var/run/postgresql"},
		"an encrypted database":     {Listen: "127.0.0.1:0", Database: "postgres://u@db.example.org/x?sslmode=require"},
		"Vault and Consul of here":  {Listen: "127.0.0.1:0", Vault: "http://127.0.0.1:8200", Consul: "http://localhost:8500"},
		"Vault and Consul with TLS": {Listen: "127.0.0.1:0", Vault: "https://vault.example.org", Consul: "https://consul.example.org"},
		"an encrypted broker":       {Listen: "127.0.0.1:0", Bus: "rabbitmq", BusOptions: []string{"url=amqps://mq.example.org"}},
		"a listener with its own":   {Listen: "0.0.0.0:0", TLSCert: "tls.crt", TLSKey: "tls.key"},
	} {
		if err := app.Plain(s); err != nil {
			t.Errorf("%s: %v", reason, err)
		}
	}
}

// An agent has a Consul, too.
func TestAgentsDoNotAskConsulUnencrypted(t *testing.T) {
	c := app.AgentConfig{AgentSettings: app.AgentSettings{Server: "https://drover.example.org", Cluster: "c", Token: "secret", Consul: "http://consul.example.org", DataDir: t.TempDir()}}
	if err := app.Agent(t.Context(), c); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "--plaintext consul") {
		t.Errorf("%v", err)
	}
}

func TestAgentsDoNotSendTheirTokensUnencrypted(t *testing.T) {
	c := app.AgentConfig{AgentSettings: app.AgentSettings{Server: "http://drover.example.org", Cluster: "c", Token: "secret", DataDir: t.TempDir()}}
	err := app.Agent(t.Context(), c)
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "--plaintext server") || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
}
