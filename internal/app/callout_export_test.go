package app

import (
	"net/http"

	"github.com/droverhq/drover/internal/resilience"
)

// Sides as the server makes them, for whoever holds them against what is promised.
func OwnVault(at, token string, o resilience.Observer) error {
	_, err := openOwn(&Config{Settings: Settings{Vault: at, VaultOptions: []string{"token-file=" + token}}}, o)
	return err
}

func Names(at string, o resilience.Observer) error {
	_, err := openNames(at, nil, nil, o)
	return err
}

func LineOf(name string, o resilience.Observer)       { line(name, o) }
func Terraformer(o resilience.Observer)               { newTerraformer(o) }
func ClusterMaker(name string, o resilience.Observer) { resilience.New(makerConfig(name, o)) }
func Collector(o resilience.Observer)                 { resilience.New(collectorConfig(o)) }
func GitHubConfig() resilience.Config                 { return gitHubConfig() }
func PeerClient(name string, o resilience.Observer) (*http.Client, error) {
	return peerClient(nil, "site-options", nil, resilience.New(siteConfig(name, o)))
}
