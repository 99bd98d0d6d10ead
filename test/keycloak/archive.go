// Package keycloak gives tests a real Keycloak server.
//
// It owns fetching it, running it on loopback in a directory of its own, and
// fresh realms. It must not know what is kept in them.
//
// DROVER_TEST_KEYCLOAK names a running server to use instead of starting one per
// test process (http://admin:password@127.0.0.1:8080).
// DROVER_TEST_NO_KEYCLOAK=1 says that there is none, and that this was reported.
package keycloak

import "github.com/droverhq/drover/test/servers"

// Archive is a version that was seen to run on JDK 17.
var Archive = servers.Archive{
	Name:    "keycloak",
	Version: "26.4.5",
	URL:     "https://repo1.maven.org/maven2/org/keycloak/keycloak-quarkus-dist/26.4.5/keycloak-quarkus-dist-26.4.5.zip",
	SHA256:  "72f73642a2c36de797d51b4b2b342d4a49f6e5832af10aa470cd123627bd80b3",
	Strip:   1,
}
