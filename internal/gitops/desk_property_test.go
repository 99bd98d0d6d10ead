package gitops_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/ledger"
)

// Whatever a server says in whatever order: three conditions are there, deployments
// have what was last found good, and nothing in use is retired.
func TestRepositoryVerdicts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		r := gitops.Repository{Object: ledger.Object{Generation: 1}, Spec: gitops.RepositorySpec{URL: "https://h/r", Secret: "s", Password: "secret:0"}}
		good := ""
		for i := range rapid.IntRange(1, 30).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(1, 1200).Draw(t, "pause")) * time.Second)
			if rapid.Bool().Draw(t, "new secret") {
				before := []string{r.Spec.Password}
				r.Generation++
				r.Spec.Password = fmt.Sprintf("secret:%d", i+1)
				after := []string{r.Spec.Password, good}
				r.Status.Retired = gitops.Retire(r.Status.Retired, before, after, now)
			}
			v := rapid.SampledFrom([]string{"", "SecretNotFound", "InvalidRepositoryUrl", "InvalidCredentials", "away"}).Draw(t, "verdict")
			was := r.Status
			r.Status = gitops.SettleRepository(r, gitops.NewVerdict(strings.TrimSuffix(v, "away"), v == "away"), now)
			if v == "" {
				good = r.Spec.Password
			}
			st := r.Status
			if len(st.Conditions) != 3 {
				t.Fatalf("%d conditions", len(st.Conditions))
			}
			if (st.Good != nil) != (good != "") || st.Good != nil && st.Good.Password != good {
				t.Fatalf("deployments have %+v, want %s", st.Good, good)
			}
			for _, x := range st.Retired {
				if x.Ref == good || x.Ref == r.Spec.Password {
					t.Fatalf("%s is in use and retired", x.Ref)
				}
			}
			if v == "away" && st.Valid != was.Valid {
				t.Fatal("a server that is away changed the verdict")
			}
			if v != "away" && st.Valid != (v == "") {
				t.Fatalf("valid is %v after %q", st.Valid, v)
			}
			if (st.Conditions[0].Status == "False") != st.Valid {
				t.Fatalf("%+v", st.Conditions[0])
			}
			probe, left := gitops.PlanRepository(r, now)
			if probe && st.Seen == r.Generation || left > 10*time.Minute {
				t.Fatalf("asked again at once, or in %s", left)
			}
			if soon, _ := gitops.PlanRepository(r, now.Add(10*time.Minute)); !soon {
				t.Fatal("it is not checked again after ten minutes")
			}
		}
	})
}

// Nothing gets lost: what was ever sealed is in use, or retired once.
func TestTargetVerdicts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		tg := gitops.Target{Object: ledger.Object{Generation: 1}, Spec: gitops.TargetSpec{URL: "https://h", Kubeconfig: "secret:k"}}
		var sealed []string
		for i := range rapid.IntRange(1, 30).Draw(t, "steps") {
			now = now.Add(time.Minute)
			tg.Generation += int64(rapid.IntRange(0, 1).Draw(t, "spec"))
			var access *gitops.Access
			v := rapid.SampledFrom([]string{"", "same", "UnableToLocateContext", "UnableToValidateClusterCredentials", "away"}).Draw(t, "verdict")
			switch {
			case v == "same" && tg.Status.Access != nil:
				copied := *tg.Status.Access
				access = &copied
			case v == "" || v == "same":
				access = &gitops.Access{Server: "https://h", Token: fmt.Sprintf("secret:%d", i)}
				sealed = append(sealed, access.Token)
			}
			was := tg.Status.Access
			tg.Status = gitops.SettleTarget(tg, gitops.NewTargetFound(v, v == "away", access), now)
			st := tg.Status
			if st.Condition == nil {
				t.Fatal("no condition")
			}
			if access == nil && st.Access != was || access != nil && st.Access != access {
				t.Fatalf("deployments have %+v", st.Access)
			}
			if st.Ready && st.Condition.Status != "True" || st.Ready && st.Access == nil {
				t.Fatalf("%+v", st)
			}
			for _, ref := range sealed {
				used := st.Access != nil && st.Access.Token == ref
				retired := 0
				for _, r := range st.Retired {
					if r.Ref == ref {
						retired++
					}
				}
				if used == (retired > 0) || retired > 1 {
					t.Fatalf("%s: used %v, retired %d times", ref, used, retired)
				}
			}
			if slices.ContainsFunc(st.Retired, func(r gitops.Retired) bool { return r.Ref == "secret:k" }) {
				t.Fatal("the kubeconfig is in use and retired")
			}
		}
	})
}

func TestKubeconfigIsRebuilt(t *testing.T) {
	got, reason, message := gitops.ReadKubeconfig([]byte(withToken("t0k3n")), strings.ToUpper(clusterURL), true)
	if reason != "" {
		t.Fatal(reason, message)
	}
	for _, banned := range []string{"nobody", "other.example.org"} {
		if strings.Contains(string(got), banned) {
			t.Errorf("%s of another context is passed on", banned)
		}
	}
	again, reason, _ := gitops.ReadKubeconfig(got, clusterURL, true)
	if reason != "" || string(again) != string(got) {
		t.Errorf("read again: %s, %s", reason, again)
	}
}

// A stranger's kubeconfig starts no program, reads no file, and is not repeated.
func FuzzKubeconfig(f *testing.F) {
	f.Add([]byte(withToken("t0k3n")))
	f.Add([]byte(kubeconfig(clusterURL, "    exec: {command: id}\n    token: x")))
	f.Add([]byte(kubeconfig(clusterURL, "    tokenFile: /etc/passwd")))
	f.Add([]byte(`{"clusters":[{"name":"a","cluster":{"server":"` + clusterURL + `"}}],"contexts":[{"name":"c","context":{"cluster":"a","user":"u"}}],"users":[{"name":"u","user":{"token":"t"}}]}`))
	f.Add([]byte("clusters: &a [*a]\n"))
	f.Add([]byte("users: {}\nclusters: 3\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, token := range []bool{true, false} {
			got, reason, message := gitops.ReadKubeconfig(data, clusterURL, token)
			if (reason == "") != (got != nil) || len(message) > 2000 {
				t.Fatalf("%q, %q", reason, message)
			}
			for _, banned := range []string{`"exec"`, `"auth-provider"`, `"tokenFile"`, `"client-certificate"`, `"client-key"`, `"certificate-authority"`, `"proxy-url"`} {
				if strings.Contains(string(got), banned+":") {
					t.Fatalf("%s is passed on: %s", banned, got)
				}
			}
			if got != nil {
				if _, reason, message := gitops.ReadKubeconfig(got, clusterURL, token); reason != "" {
					t.Fatalf("what was rebuilt cannot be read: %s", message)
				}
			}
		}
	})
}
