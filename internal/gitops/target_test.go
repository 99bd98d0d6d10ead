package gitops_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/gitops"
)

const clusterURL = "https://api.cluster.example.org:6443"

// kubeconfig has another cluster first, so that the right one must be found.
func kubeconfig(server, user string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: other
clusters:
- name: other
  cluster: {server: "https://other.example.org"}
- name: mine
  cluster:
    server: %s
    certificate-authority-data: %s
contexts:
- name: other
  context: {cluster: other, user: nobody}
- name: default/mine
  context: {cluster: mine, user: me}
users:
- name: nobody
  user: {token: t0k3n-of-nobody}
- name: me
  user:
%s
`, server, base64.StdEncoding.EncodeToString([]byte("PEM of the authority")), user)
}

func withToken(token string) string { return kubeconfig(clusterURL, "    token: "+token) }

func environmentSecret(config string) *gitops.SecretData {
	return &gitops.SecretData{Type: "managed-gitops.redhat.com/managed-environment", Data: map[string][]byte{"kubeconfig": []byte(config)}}
}

func (d *desk) environment(uid string, generation int64, secret *gitops.SecretData) gitops.TargetIntent {
	return gitops.TargetIntent{
		Intent: gitops.Intent{Namespace: d.home(), Name: "prod", UID: uid, Generation: generation},
		URL:    clusterURL, SecretName: "access", Secret: secret,
	}
}

func (d *desk) intendTarget(in gitops.TargetIntent) {
	d.t.Helper()
	d.mirror.there[in.UID] = true
	d.must(d.s.IntendTarget(context.Background(), in))
}

func TestTargetConditions(t *testing.T) {
	validate := func(kind fault.Kind, text string) error {
		return fault.New(kind, "%s", text).Because("UnableToValidateClusterCredentials")
	}
	type in = gitops.TargetIntent
	cases := []struct {
		reason         string
		change         func(i *in)
		check, install error
		want           string
	}{
		{"a good one", func(*in) {}, nil, nil, "True Succeeded: "},
		{"the case of the address does not matter", func(i *in) { i.URL = "HTTPS://API.cluster.example.org:6443" }, nil, nil, "True Succeeded: "},
		{"no Secret is named", func(i *in) { i.SecretName, i.Secret = "", nil }, nil, nil, "False SecretNotSpecified: The credentialsSecret field is missing a value"},
		{"the Secret is missing", func(i *in) { i.Secret = nil }, nil, nil, "False SecretNotFound: The Secret access was not found in the namespace"},
		{"the Secret cannot be read", func(i *in) { i.Secret = &gitops.SecretData{Unreadable: true} }, nil, nil, "Unknown KubernetesError: The Secret access cannot be read"},
		{"another type", func(i *in) { i.Secret.Type = "Opaque" }, nil, nil, "False InvalidSecretType: invalid secret type: Opaque"},
		{"no kubeconfig", func(i *in) { i.Secret.Data = nil }, nil, nil, "False MissingKubeConfigField: missing kubeconfig field in Secret"},
		{"an address with a query", func(i *in) { i.URL += "?x=1" }, nil, nil, "Unknown UnsupportedAPIURL: the API URL must not have ? or & values"},
		{"an address without encryption", func(i *in) { i.URL = "http://api.cluster.example.org" }, nil, nil, "Unknown UnsupportedAPIURL: cluster api url must start with https://"},
		{"a namespace that is none", func(i *in) { i.Namespaces = []string{"ok", "No Way"} }, nil, nil, "Unknown InvalidNamespaceList: ManagedEnvironment contains an invalid namespace in namespaces list: No Way"},
		{"no YAML", func(i *in) { i.Secret = environmentSecret("{t0k3n: [") }, nil, nil, "False UnableToParseKubeconfigData: unable to parse kubeconfig data"},
		{"no such cluster", func(i *in) { i.URL = "https://elsewhere.example.org" }, nil, nil, "False UnableToLocateContext: the kubeconfig did not have a cluster entry that matched the API URL 'https://elsewhere.example.org'"},
		{"no context", func(i *in) {
			i.Secret = environmentSecret(strings.Replace(withToken("t0k3n"), "cluster: mine", "cluster: gone", 1))
		}, nil, nil, "False UnableToLocateContext: the kubeconfig did not have a context that matched"},
		{"no user", func(i *in) {
			i.Secret = environmentSecret(strings.Replace(withToken("t0k3n"), "user: me", "user: gone", 1))
		}, nil, nil, "False UnableToParseKubeconfigData: unable to extract remote cluster configuration from kubeconfig, missing auth info"},
		{"a certificate where a token is needed", func(i *in) {
			i.Secret = environmentSecret(kubeconfig(clusterURL, "    client-certificate-data: eA==\n    client-key-data: eA=="))
		}, nil, nil, "False UnableToParseKubeconfigData: kubeconfig must have a service account token"},
		{"a program", func(i *in) {
			i.Secret = environmentSecret(kubeconfig(clusterURL, "    exec: {command: touch, args: [/tmp/pwned]}"))
		}, nil, nil, "False UnableToRetrieveRestConfig: the user of the kubeconfig has exec"},
		{"a plugin", func(i *in) {
			i.Secret = environmentSecret(kubeconfig(clusterURL, "    auth-provider: {name: gcp}"))
		}, nil, nil, "False UnableToRetrieveRestConfig: the user of the kubeconfig has auth-provider"},
		{"a file of ours", func(i *in) {
			i.Secret = environmentSecret(kubeconfig(clusterURL, "    tokenFile: /etc/shadow"))
		}, nil, nil, "False UnableToRetrieveRestConfig: the user of the kubeconfig has tokenFile"},
		{"an authority in a file of ours", func(i *in) {
			i.Secret = environmentSecret(strings.Replace(withToken("t0k3n"), "certificate-authority-data:", "certificate-authority:", 1))
		}, nil, nil, "False UnableToRetrieveRestConfig: the cluster of the kubeconfig has certificate-authority"},
		{"a proxy", func(i *in) {
			i.Secret = environmentSecret(strings.Replace(withToken("t0k3n"), "    certificate-authority-data:", "    proxy-url: http://127.0.0.1:1\n    certificate-authority-data:", 1))
		}, nil, nil, "False UnableToRetrieveRestConfig: the cluster of the kubeconfig has proxy-url"},
		{"forbidden", func(*in) {}, validate(fault.Denied, gitops.TargetForbidden), nil, "Unknown UnableToValidateClusterCredentials: " + gitops.TargetForbidden},
		{"an unknown authority", func(*in) {}, validate(fault.Invalid, gitops.TargetUnknownCA), nil, "Unknown UnableToValidateClusterCredentials: " + gitops.TargetUnknownCA},
		{"refused", func(*in) {}, validate(fault.Denied, gitops.TargetUnverified), nil, "Unknown UnableToValidateClusterCredentials: " + gitops.TargetUnverified},
		{"away", func(*in) {}, validate(fault.Unavailable, "away"), nil, "Unknown UnableToValidateClusterCredentials: away"},
		{"no client", func(*in) {}, fault.New(fault.Invalid, "bad").Because("UnableToCreateClient"), nil, "False UnableToCreateClient: bad"},
		{"something of ours", func(*in) {}, fmt.Errorf("t0k3n in a stack trace"), nil, "Unknown UnknownError: The cluster could not be looked at: an internal error"},
		{"no account can be made", func(i *in) { i.NewAccount = true }, nil, fault.New(fault.Denied, "may not").Because("UnableToInstallServiceAccount"), "False UnableToInstallServiceAccount: may not"},
		{"no token can be had", func(i *in) { i.NewAccount = true }, nil, fault.New(fault.Denied, "may not").Because("UnableToCreateClusterCredentials"), "False UnableToCreateClusterCredentials: may not"},
		{"its token takes long", func(i *in) { i.NewAccount = true }, nil, fault.New(fault.Unavailable, "not yet").Because("UnableToCreateClusterCredentials"), "Unknown UnableToCreateClusterCredentials: not yet"},
		{"an account by certificate", func(i *in) {
			i.NewAccount = true
			i.Secret = environmentSecret(kubeconfig(clusterURL, "    client-certificate-data: eA==\n    client-key-data: eA=="))
		}, nil, nil, "True Succeeded: "},
	}
	for _, c := range cases {
		t.Run(c.reason, func(t *testing.T) {
			d := newDesk(t)
			d.remote.check, d.remote.install = c.check, c.install
			i := d.environment("t-1", 1, environmentSecret(withToken("t0k3n-of-mine")))
			c.change(&i)
			d.intendTarget(i)
			d.work(time.Second)
			view, _ := d.mirror.told["t-1"].(gitops.TargetView)
			if len(view.Conditions) != 1 || !strings.HasPrefix(lines(view.Conditions)[0], "ConnectionInitializationSucceeded "+c.want) {
				t.Fatalf("%v; want %s", lines(view.Conditions), c.want)
			}
			tg := d.target("t-1")
			if good := strings.HasPrefix(c.want, "True"); tg.Status.Ready != good || (tg.Status.Access != nil) != good {
				t.Errorf("%+v", tg.Status)
			}
			d.nowhere("t0k3n", "/etc/shadow", "pwned")
		})
	}
}

// onTarget is a deployment to the target.
func (d *desk) onTarget(uid string) gitops.DeploymentIntent {
	in := d.intent(uid, 1)
	in.Environment, in.ToNamespace = "prod", "shop"
	return in
}

// A new kubeconfig takes the place of one that still works, and reaches agents.
func TestKubeconfigRotation(t *testing.T) {
	d := newDesk(t)
	d.apply(d.onTarget("uid-1"))
	d.work(time.Second)
	if _, ok := d.item("hub", "uid-1"); ok {
		t.Fatal("it was handed over without its target")
	}
	d.intendTarget(d.environment("t-1", 1, environmentSecret(withToken("first-t0k3n"))))
	d.work(time.Second)
	b := d.body("hub", "uid-1")
	if b.Target == nil || b.Target.ID != "t-1" || b.Target.Token != "first-t0k3n" || b.Target.Server != clusterURL || b.Target.CA != "PEM of the authority" || b.Target.Name != "prod" {
		t.Fatalf("the agent is told %+v", b.Target)
	}
	first := d.target("t-1")
	version := first.Version
	d.intendTarget(d.environment("t-1", 1, environmentSecret(withToken("first-t0k3n"))))
	if v := d.target("t-1").Version; v != version {
		t.Error("an unchanged Secret was written")
	}
	d.intendTarget(d.environment("t-1", 1, environmentSecret(withToken("second-t0k3n"))))
	d.work(time.Second)
	if b := d.body("hub", "uid-1"); b.Target.Token != "second-t0k3n" {
		t.Errorf("the agent is told %+v", b.Target)
	}
	if d.opens(first.Status.Access.Token) != "first-t0k3n" {
		t.Error("the old token was destroyed while an agent may be fetching it")
	}
	// A third one that does not work changes nothing for deployments.
	d.remote.check = fault.New(fault.Denied, "%s", gitops.TargetUnverified).Because("UnableToValidateClusterCredentials")
	d.intendTarget(d.environment("t-1", 1, environmentSecret(withToken("third-t0k3n"))))
	d.work(30 * time.Minute)
	if b := d.body("hub", "uid-1"); b.Target.Token != "second-t0k3n" || d.target("t-1").Status.Ready {
		t.Errorf("the agent is told %+v", b.Target)
	}
	if d.opens(first.Status.Access.Token) != "shredded" || d.opens(first.Spec.Kubeconfig) != "shredded" {
		t.Error("old secrets are kept")
	}
	// Gone: deployments are detached, and nothing of theirs is deleted.
	in := d.environment("t-1", 1, nil)
	in.Gone = true
	d.intendTarget(in)
	d.work(time.Second)
	it := mustItem(d, "uid-1")
	if b := d.body("hub", "uid-1"); it.Delete || b.Target != nil && b.Target.Token != "" || !b.Detached {
		t.Errorf("after its target went: %+v, %+v", it, b)
	}
	if tg := d.target("t-1"); tg.Phase != gitops.Gone || tg.Status.Access != nil {
		t.Errorf("%+v", tg)
	}
	d.nowhere("first-t0k3n", "second-t0k3n", "third-t0k3n")
}

func TestAccounts(t *testing.T) {
	d := newDesk(t)
	in := d.environment("t-1", 1, environmentSecret(withToken("admin-t0k3n")))
	in.NewAccount, in.Namespaces = true, []string{"shop"}
	d.intendTarget(in)
	other := d.environment("t-2", 1, environmentSecret(withToken("admin-t0k3n")))
	other.Name, other.NewAccount = "second", true
	d.intendTarget(other)
	d.work(time.Second)
	at, ok := d.remote.accounts[clusterURL+" argocd-manager-t-1"]
	if !ok || len(d.remote.accounts) != 2 || len(at.Namespaces) != 1 || len(at.Kubeconfig) == 0 || strings.Contains(string(at.Kubeconfig), "nobody") {
		t.Fatalf("made are %+v", d.remote.accounts)
	}
	tg := d.target("t-1")
	if d.opens(tg.Status.Access.Token) != "t0k3n-of-the-account" || tg.Status.Access.Namespaces[0] != "shop" {
		t.Errorf("%+v", tg.Status.Access)
	}
	if last := d.remote.checked[0]; last.Token != "t0k3n-of-the-account" || last.Kubeconfig != nil {
		t.Error("the account's token was not tried")
	}
	// The cluster makes another token by itself.
	d.remote.token = "t0k3n-of-tomorrow"
	d.work(11 * time.Minute)
	if got := d.opens(d.target("t-1").Status.Access.Token); got != "t0k3n-of-tomorrow" {
		t.Errorf("the token is %s", got)
	}
	// The user's own token from now on: the account goes, at a later check.
	in.NewAccount, in.Generation = false, 2
	d.intendTarget(in)
	d.work(time.Second)
	if d.opens(d.target("t-1").Status.Access.Token) != "admin-t0k3n" || len(d.remote.accounts) != 2 {
		t.Errorf("%+v", d.remote.accounts)
	}
	d.work(11 * time.Minute)
	if len(d.remote.accounts) != 1 || len(d.target("t-1").Status.Accounts) != 0 {
		t.Errorf("%+v", d.remote.accounts)
	}
	// The other is deleted, and its cluster with it.
	d.remote.remove = fault.New(fault.Unavailable, "away")
	other.Gone = true
	d.intendTarget(other)
	d.work(time.Hour)
	if tg := d.target("t-2"); tg.Phase != gitops.Gone || d.remote.removals != 6 {
		t.Errorf("%s after %d removals", tg.Phase, d.remote.removals)
	}
	d.nowhere("admin-t0k3n", "t0k3n-of-the-account")
}

// A target that becomes another cluster leaves nothing on the one it was.
func TestMovedTarget(t *testing.T) {
	d := newDesk(t)
	in := d.environment("t-1", 1, environmentSecret(withToken("admin-t0k3n")))
	in.NewAccount = true
	d.intendTarget(in)
	d.work(time.Second)
	first := d.target("t-1").Spec.Kubeconfig
	in.URL, in.Generation = "https://new.example.org", 2
	in.Secret = environmentSecret(kubeconfig(in.URL, "    token: new-t0k3n"))
	d.intendTarget(in)
	d.work(time.Second)
	if len(d.remote.accounts) != 2 || d.target("t-1").Status.Access.Server != in.URL {
		t.Fatalf("%+v", d.remote.accounts)
	}
	d.work(11 * time.Minute)
	if _, there := d.remote.accounts["https://new.example.org argocd-manager-t-1"]; !there || len(d.remote.accounts) != 1 {
		t.Errorf("%+v", d.remote.accounts)
	}
	d.work(30 * time.Minute)
	if tg := d.target("t-1"); d.opens(first) != "shredded" || len(tg.Status.Left) != 0 || !tg.Status.Ready {
		t.Errorf("%+v", tg.Status)
	}
}

func TestAccountIsRemoved(t *testing.T) {
	d := newDesk(t)
	in := d.environment("t-1", 1, environmentSecret(withToken("admin-t0k3n")))
	in.NewAccount = true
	d.intendTarget(in)
	d.work(time.Second)
	// Even if the Secret went first.
	gone := in
	gone.Secret = nil
	d.intendTarget(gone)
	d.work(time.Second)
	gone.Gone = true
	d.intendTarget(gone)
	d.work(time.Second)
	tg := d.target("t-1")
	if len(d.remote.accounts) != 0 || tg.Phase != gitops.Gone {
		t.Errorf("%s, %+v", tg.Phase, d.remote.accounts)
	}
	d.work(30 * time.Minute)
	if d.opens(tg.Spec.Kubeconfig) != "shredded" {
		t.Error("its kubeconfig is kept")
	}
}

// A cluster that is away for a while keeps its deployments.
func TestClusterAway(t *testing.T) {
	d := newDesk(t)
	d.apply(d.onTarget("uid-1"))
	d.intendTarget(d.environment("t-1", 1, environmentSecret(withToken("first-t0k3n"))))
	d.work(time.Second)
	told := d.mirror.times["t-1"]
	d.remote.check = fault.New(fault.Unavailable, "away").Because("UnableToValidateClusterCredentials")
	d.work(10*time.Minute + time.Second)
	if tg := d.target("t-1"); !tg.Status.Ready || d.mirror.times["t-1"] != told {
		t.Errorf("one lost connection is told: %+v", tg.Status)
	}
	d.work(2 * time.Hour)
	if tg := d.target("t-1"); tg.Status.Ready || tg.Status.Access == nil || d.mirror.times["t-1"] != told+1 {
		t.Errorf("%+v, told %d times", tg.Status, d.mirror.times["t-1"]-told)
	}
	if b := d.body("hub", "uid-1"); b.Target == nil || b.Target.Token != "first-t0k3n" {
		t.Errorf("the agent is told %+v", b.Target)
	}
	d.remote.check = nil
	d.work(2 * time.Minute)
	if tg := d.target("t-1"); !tg.Status.Ready || tg.Status.Condition.Reason != "Succeeded" {
		t.Errorf("%+v", tg.Status)
	}
}

// The name again, with another UID: the new one is used as soon as the old one is
// on its way out.
func TestTargetMadeAnew(t *testing.T) {
	d := newDesk(t)
	d.apply(d.onTarget("uid-1"))
	old := d.environment("t-1", 1, environmentSecret(withToken("first-t0k3n")))
	d.intendTarget(old)
	d.work(time.Second)
	d.intendTarget(d.environment("t-2", 1, environmentSecret(withToken("second-t0k3n"))))
	old.Gone = true
	d.intendTarget(old)
	d.work(5 * time.Minute)
	if b := d.body("hub", "uid-1"); b.Target == nil || b.Target.ID != "t-2" || b.Target.Token != "second-t0k3n" {
		t.Errorf("the agent is told %+v", b.Target)
	}
}

func TestTargetVerbs(t *testing.T) {
	d := newDesk(t)
	order := gitops.TargetOrder{Name: "prod", URL: clusterURL, Kubeconfig: []byte(withToken("anna-t0k3n"))}
	tg, err := d.s.PutTarget(anna, order)
	d.must(err)
	d.work(time.Second)
	if tg = d.target(tg.ID); !tg.Status.Ready || tg.Org != "acme" {
		t.Fatalf("%+v", tg)
	}
	for _, change := range []func(o *gitops.TargetOrder){
		func(o *gitops.TargetOrder) { o.Kubeconfig = nil },
		func(o *gitops.TargetOrder) { o.URL = "https://elsewhere" },
		func(o *gitops.TargetOrder) { o.URL += "?x" },
		func(o *gitops.TargetOrder) { o.Namespaces = []string{"../x"} },
		func(o *gitops.TargetOrder) { o.Name = "a/b" },
		func(o *gitops.TargetOrder) {
			o.Kubeconfig = []byte(kubeconfig(clusterURL, "    exec: {command: id}\n    token: anna-t0k3n"))
		},
	} {
		bad := order
		change(&bad)
		if _, err := d.s.PutTarget(anna, bad); !fault.Is(err, fault.Invalid) || strings.Contains(err.Error(), "t0k3n") {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if err := d.s.DeleteTarget(carl, tg.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("a stranger deletes: %v", err)
	}
	d.must(d.s.DeleteTarget(anna, "prod"))
	d.work(time.Second)
	if d.target(tg.ID).Phase != gitops.Gone {
		t.Error("it is still there")
	}
	d.nowhere("anna-t0k3n")
}

// A Secret that cannot be read takes nothing away, and is good again once it can be.
func TestTargetGoesOnWhileItsSecretCannotBeRead(t *testing.T) {
	d := newDesk(t)
	good := d.environment("t-1", 1, environmentSecret(withToken("t0k3n")))
	d.intendTarget(good)
	d.work(time.Second)
	blind := good
	blind.Secret = &gitops.SecretData{Unreadable: true}
	d.intendTarget(blind)
	d.work(time.Second)
	if tg := d.target("t-1"); tg.Status.Condition.Reason != "KubernetesError" || tg.Status.Access == nil || tg.Spec.Kubeconfig == "" {
		t.Errorf("%+v", tg.Status)
	}
	d.intendTarget(good)
	d.work(time.Second)
	if tg := d.target("t-1"); tg.Status.Condition.Reason != "Succeeded" || !tg.Status.Ready {
		t.Errorf("%+v", tg.Status)
	}
}

// What the ledger has lost is told; what deployments use is left to them.
func TestTargetWhoseKubeconfigIsLost(t *testing.T) {
	d := newDesk(t)
	d.intendTarget(d.environment("t-1", 1, environmentSecret(withToken("t0k3n"))))
	d.work(time.Second)
	d.must(d.store.Shred(context.Background(), d.target("t-1").Spec.Kubeconfig))
	d.work(11 * time.Minute)
	tg := d.target("t-1")
	if c := tg.Status.Condition; c.Reason != "DatabaseError" || c.Status != "Unknown" || !strings.Contains(c.Message, "write the Secret anew") || tg.Status.Access == nil {
		t.Errorf("%+v", tg.Status)
	}
}
