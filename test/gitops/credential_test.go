//go:build e2e

package gitops_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/droverhq/drover/test/argocd"
	"github.com/droverhq/drover/test/gitserver"
)

// secret makes or replaces one of a type.
func (w *world) secret(t *testing.T, ns, name, kind string, data map[string]string) {
	t.Helper()
	text, err := json.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	// A type never changes: another one is another Secret.
	o := object(t, fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: %s}, type: %s, stringData: %s}", name, kind, text))
	if err := w.tryApply(t, ns, o); apierrors.IsInvalid(err) {
		w.remove(t, secrets, ns, name)
		w.apply(t, ns, o)
	} else if err != nil {
		t.Fatal(err)
	}
}

const (
	repositorySecret  = group + "/repository-credential"
	environmentSecret = group + "/managed-environment"
)

// credential waits until a GitOpsDeploymentRepositoryCredential has a reason.
func (w *world) credential(t *testing.T, ns, reason string) *thing {
	t.Helper()
	return w.says(t, credentials, ns, "git", "ErrorOccurred", " "+reason+": ")
}

func (w *world) credentialFor(t *testing.T, ns, url string) (uid string) {
	t.Helper()
	w.apply(t, ns, custom(t, "GitOpsDeploymentRepositoryCredential", "git", fmt.Sprintf("{repository: %q, secret: login}", url)))
	return string(w.get(t, credentials, ns, "git").GetUID())
}

func privateByHTTPS(t *testing.T, w *world) {
	ns, stranger := w.namespace(t), w.namespace(t)
	git := gitserver.Start(t, gitserver.WithPassword(reader, password), gitserver.WithTLS())
	repo := git.Repo(t, ns)
	first := repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "1")})
	w.deploy(t, ns, "shop", of("automated", repo.URL))
	w.says(t, deployments, ns, "shop", "ComparisonError", "authentication required")

	w.secret(t, ns, "login", "Opaque", map[string]string{"username": reader, "password": password})
	uid := w.credentialFor(t, ns, repo.URL)
	w.credential(t, ns, "SecretInvalidType")
	w.secret(t, ns, "login", repositorySecret, map[string]string{"username": reader, "password": "guess"})
	if got := condition(w.credential(t, ns, "InvalidCredentials"), "ValidRepositoryCredential"); !strings.HasPrefix(got, "False InvalidCredentials") {
		t.Errorf("the credential is %q", got)
	}
	w.secret(t, ns, "login", repositorySecret, map[string]string{"username": reader, "password": password})
	o := w.credential(t, ns, "RepositoryCredentialUpToDate")
	for kind, want := range map[string]string{"ErrorOccurred": "False RepositoryCredentialUpToDate: RepositoryCredentials are Valid",
		"ValidRepositoryURL": "True ValidRepositoryUrl: ", "ValidRepositoryCredential": "True RepositoryCredentialUpToDate: "} {
		if got := condition(o, kind); !strings.HasPrefix(got, want) {
			t.Errorf("%s is %q", kind, got)
		}
	}
	w.synced(t, ns, "shop", first)
	w.says(t, deployments, ns, "shop", "ComparisonError", "False ComparisonErrorResolved")
	w.completed(t, uid, "GitOpsDeploymentRepositoryCredential", 1) // of three that were asked for, the others led to nothing here

	// Another tenant knows the URL, and nothing else.
	foreign := w.deploy(t, stranger, "shop", of("automated", repo.URL))
	w.says(t, deployments, stranger, "shop", "ComparisonError", "authentication required")
	w.value(t, stranger, "a", "none")

	// A new password reaches Argo CD by itself.
	git.SetPassword(reader, "rotated")
	w.secret(t, ns, "login", repositorySecret, map[string]string{"username": reader, "password": "rotated"})
	w.wait(t, secrets, w.a.Namespace, "repo-cred-"+uid, "the new one", func(o *thing) bool {
		return o != nil && argocd.Field(o, "data.password") == base64.StdEncoding.EncodeToString([]byte("rotated"))
	})
	w.credential(t, ns, "RepositoryCredentialUpToDate")
	w.completed(t, uid, "GitOpsDeploymentRepositoryCredential", 2)
	second := repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "2")})
	w.push(t, repo, "main", w.pushSecret(t))
	w.synced(t, ns, "shop", second)

	// One that is bad is not taken over: what was good goes on.
	w.secret(t, ns, "login", repositorySecret, map[string]string{"username": reader, "password": "wrong"})
	w.credential(t, ns, "InvalidCredentials")
	third := repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "3")})
	w.push(t, repo, "main", w.pushSecret(t))
	w.synced(t, ns, "shop", third)

	w.remove(t, credentials, ns, "git")
	w.gone(t, secrets, w.a.Namespace, "repo-cred-"+uid)
	w.remove(t, deployments, stranger, "shop")
	w.gone(t, applications, w.a.Namespace, application(foreign))

	// A repository that is not there is told from a password that is wrong.
	w.secret(t, ns, "login", repositorySecret, map[string]string{"username": reader, "password": "rotated"})
	w.credentialFor(t, ns, strings.Replace(repo.URL, ns, "there-is-none", 1))
	w.credential(t, ns, "InvalidRepositoryUrl")
	if err := w.tryApply(t, ns, custom(t, "GitOpsDeploymentRepositoryCredential", "other", "{repository: \"http://host/repo\", secret: login}")); !apierrors.IsInvalid(err) ||
		!strings.Contains(err.Error(), "repository must begin with ssh:// or https://") {
		t.Errorf("a URL without TLS: %v", err)
	}
}

func privateBySSH(t *testing.T, w *world) {
	ns := w.namespace(t)
	repo := w.git.Repo(t, ns)
	commit := repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "1")})
	url, other := w.ssh.URL(repo), w.git.SSH(t)
	uid := w.credentialFor(t, ns, url)
	w.deploy(t, ns, "shop", of("automated", url))
	for _, c := range []struct {
		reason, key, hosts, want string
	}{
		{"somebody else's key", string(other.Key), "", "InvalidCredentials"},
		{"another host's key", string(w.ssh.Key), other.KnownHosts, "InvalidCredentials"},
		{"what is no key", "none", "", "InvalidCredentials"},
		{"the right key, and the host is known to the server", string(w.ssh.Key), "", "RepositoryCredentialUpToDate"},
	} {
		data := map[string]string{"sshPrivateKey": c.key}
		if c.hosts != "" {
			data["knownHosts"] = c.hosts
		}
		w.remove(t, secrets, ns, "login")
		w.credential(t, ns, "SecretNotFound")
		w.secret(t, ns, "login", repositorySecret, data)
		w.credential(t, ns, c.want)
	}
	w.synced(t, ns, "shop", commit)
	w.value(t, ns, "a", "1")

	// Another key: the server lets the old one in no more, and the new one reaches
	// Argo CD by itself.
	w.ssh.Rotate(t)
	w.secret(t, ns, "login", repositorySecret, map[string]string{"sshPrivateKey": string(w.ssh.Key)})
	w.wait(t, secrets, w.a.Namespace, "repo-cred-"+uid, "with the new key", func(o *thing) bool {
		return o != nil && argocd.Field(o, "data.sshPrivateKey") == base64.StdEncoding.EncodeToString(w.ssh.Key)
	})
	w.credential(t, ns, "RepositoryCredentialUpToDate")
	commit = repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "2")})
	w.pushTo(t, url, "main", w.pushSecret(t))
	w.synced(t, ns, "shop", commit)
	w.value(t, ns, "a", "2")

	// A host that the tenant alone knows.
	behind := other.URL(repo)
	w.secret(t, ns, "login", repositorySecret, map[string]string{"sshPrivateKey": string(other.Key), "knownHosts": other.KnownHosts})
	w.credentialFor(t, ns, behind)
	w.credential(t, ns, "RepositoryCredentialUpToDate")
	w.deploy(t, ns, "shop", of("automated", behind))
	w.wait(t, deployments, ns, "shop", "there by the other way", func(o *thing) bool {
		return argocd.Synced(commit)(o) && argocd.Field(o, "status.reconciledState.source.repoURL") == behind
	})
}
