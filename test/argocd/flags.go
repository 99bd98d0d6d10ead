package argocd

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/droverhq/drover/test/servers/process"
)

// processes says how the servers are run. All listen on loopback alone.
func (s *Server) processes(p programs, ports []string, o options) {
	redis, repos, reposHealth, controllerHealth := ports[0], ports[1], ports[2], ports[3]
	s.RedisAddress = "127.0.0.1:" + redis
	s.Redis = s.leash.Process("redis", p.redis,
		"--bind", "127.0.0.1", "--port", redis, "--dir", s.leash.Dir, "--save", "", "--appendonly", "no") // it is a cache
	s.RepoServer = s.leash.Process("argocd-repo-server", filepath.Join(p.argocd, "argocd-repo-server"),
		"--address=127.0.0.1", "--port="+repos, "--metrics-address=127.0.0.1", "--metrics-port="+reposHealth,
		"--redis=127.0.0.1:"+redis, "--disable-tls", "--client-ca-path=", "--logformat=text")
	s.Controller = s.leash.Process("argocd-application-controller", filepath.Join(p.argocd, "argocd-application-controller"), append([]string{
		"--kubeconfig=" + s.file("kubeconfig"), "--namespace=" + s.Namespace, "--metrics-port=" + controllerHealth,
		"--redis=127.0.0.1:" + redis, "--repo-server=127.0.0.1:" + repos, "--repo-server-plaintext", "--logformat=text",
		"--application-namespaces=" + o.namespaces,
		"--repo-error-grace-period-seconds=5", // three minutes by default, in which nobody is told
		"--app-resync-jitter=0",
		"--persist-resource-health", // in the Application's status; not the default
	}, o.flags...)...)
	env := []string{
		// Git asks argocd itself for passwords; charts and overlays are made by others.
		"PATH=" + strings.Join([]string{p.argocd, filepath.Join(p.argocd, "hack"), p.helm, p.kustomize, os.Getenv("PATH")}, string(os.PathListSeparator)),
		// The cluster that it is installed in is that of the kubeconfig.
		"ARGOCD_FAKE_IN_CLUSTER=true", "KUBECONFIG=" + s.file("kubeconfig"),
		"ARGOCD_RECONCILIATION_TIMEOUT=" + o.resync.String(),
		"ARGOCD_TLS_DATA_PATH=" + s.file("tls"), "ARGOCD_SSH_DATA_PATH=" + s.file("ssh"),
		"ARGOCD_GPG_ENABLED=false", "ARGOCD_GNUPGHOME=" + s.file("gpg-keys"), "ARGOCD_GPG_DATA_PATH=" + s.file("gpg-source"),
		"ARGOCD_PLUGINSOCKFILEPATH=" + s.file("plugins"), "ARGOCD_APP_CONF_PATH=" + s.file("conf"),
		"ARGOCD_ASK_PASS_SOCK=" + s.file("askpass.sock"),
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", // of whoever runs the tests
	}
	s.RepoServer.Env, s.Controller.Env = env, env
	s.health = map[*process.Process]string{
		s.Redis:      "redis://127.0.0.1:" + redis,
		s.RepoServer: "http://127.0.0.1:" + reposHealth + "/healthz?full=true",
		s.Controller: "http://127.0.0.1:" + controllerHealth + "/healthz",
	}
}
