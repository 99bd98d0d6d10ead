//go:build e2e

package gitops_test

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	_ "modernc.org/sqlite"

	"github.com/droverhq/drover/test/argocd"
)

// rows is the database of a server that runs, as somebody else sees it.
type rows struct {
	*sql.DB
	w *world
}

func (w *world) rows(t *testing.T) rows {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(w.s.DataDir, "drover.db")+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return rows{db, w}
}

// change writes one row behind the server's back.
func (r rows) change(t *testing.T, line string, args ...any) {
	t.Helper()
	done, err := r.Exec(line, args...)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := done.RowsAffected(); n != 1 || err != nil {
		t.Fatalf("%s: %d rows, %v", line, n, err)
	}
}

// of is what is asked for in a row, and its phase; empty: there is none.
func (r rows) of(t *testing.T, kind, id string) (spec, phase string) {
	t.Helper()
	err := r.QueryRow("SELECT spec, phase FROM object_"+kind+" WHERE id = ?", id).Scan(&spec, &phase)
	if err != nil && err != sql.ErrNoRows {
		t.Fatal(err)
	}
	return spec, phase
}

// legible tells whether the status of a row can be read.
func (r rows) legible(t *testing.T, kind, id string) (ok bool) {
	t.Helper()
	if err := r.QueryRow("SELECT json_valid(status) FROM object_"+kind+" WHERE id = ?", id).Scan(&ok); err != nil {
		t.Fatal(err)
	}
	return ok
}

// within waits until a row is as the question asks, no longer than the world does.
func (r rows) within(t *testing.T, end time.Time, kind, id, what string, is func(spec, phase string) bool) {
	t.Helper()
	for spec, phase := r.of(t, kind, id); !is(spec, phase); spec, phase = r.of(t, kind, id) {
		if time.Now().After(end) {
			t.Fatalf("the row of the %s is not %s in time: %s %s", kind, what, phase, spec)
		}
		time.Sleep(100 * time.Millisecond) // between looks into the file
	}
}

// putRightTold waits for an event that tells of a row.
func (w *world) putRightTold(t *testing.T, ns, uid string) {
	t.Helper()
	until(t, "an event", func() bool {
		list, err := w.k.Client(t).CoreV1().Events(ns).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list.Items {
			if e.Reason == "PutRight" && string(e.InvolvedObject.UID) == uid && strings.Contains(e.Message, "what the ledger has of it was changed") {
				return true
			}
		}
		return false
	})
}

// minuteOfLedger changes rows of live custom resources in the database and takes them
// out of it, while the server runs: nobody is told.
func minuteOfLedger(t *testing.T, w *world) {
	ns, there := w.namespace(t), w.namespace(t)
	repo := w.private.Repo(t, ns)
	first := repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "1"), "other/b.yaml": configMap("b", "1")})
	credential := w.credentialFor(t, ns, repo.URL)
	w.secret(t, ns, "login", repositorySecret, map[string]string{"username": reader, "password": password})
	environment := w.environment(t, ns, "mine", ", namespaces: ["+there+"]")
	w.secret(t, ns, "mine", environmentSecret, map[string]string{"kubeconfig": w.account(t, there, "one", false)})
	uid := w.deploy(t, ns, "shop", of("automated", repo.URL))
	w.deploy(t, ns, "far", into(repo.URL, "mine", there))
	w.synced(t, ns, "shop", first)
	w.synced(t, ns, "far", first)
	w.deploy(t, ns, "hand", strings.Replace(of("manual", repo.URL), "path: k8s", "path: other", 1))
	w.sync(t, ns, "once", "{gitopsDeploymentName: hand}")
	once := w.ended(t, ns, "once", "Succeeded")
	run := string(once.GetUID())
	repo.Commit(t, "main", files{"other/b.yaml": configMap("b", "2")})
	w.sync(t, ns, "later", "{gitopsDeploymentName: hand}") // which the first one must not undo
	w.ended(t, ns, "later", "Succeeded")
	w.value(t, ns, "b", "2")

	live, app := w.get(t, configMaps, ns, "a").GetUID(), w.get(t, applications, w.a.Namespace, application(uid)).GetUID()
	orders := func() int { return strings.Count(w.run(t, "get", "operations", "--size", "1000", "-o", "json"), uid) }
	before := orders()
	db := w.rows(t)
	all := []struct{ kind, id, field, value, phase string }{
		{"deployment", uid, "$.path", "elsewhere", "deployed"},
		{"syncrun", run, "$.revision", "c0ffee", "succeeded"},
		{"repository", credential, "$.username", "root", "ready"},
		{"target", environment, "$.secret", "other", "ready"},
	}
	right := map[string]string{}
	for _, c := range all {
		right[c.id], _ = db.of(t, c.kind, c.id)
		db.change(t, "UPDATE object_"+c.kind+" SET spec = json_set(spec, ?, ?) WHERE id = ?", c.field, c.value, c.id)
	}
	end := time.Now().Add(time.Minute)
	for _, c := range all {
		db.within(t, end, c.kind, c.id, "as it was", func(spec, _ string) bool { return spec == right[c.id] })
		w.putRightTold(t, ns, c.id)
	}
	if orders() <= before {
		t.Error("no operation tells that the deployment was put right")
	}

	named, err := w.k.Client(t).CoreV1().Namespaces().Get(t.Context(), ns, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	space := string(named.UID)
	right[space], _ = db.of(t, "workspace", space)
	db.change(t, "UPDATE object_workspace SET spec = json_set(spec, '$.engine', 'elsewhere', '$.namespace', 'kube-system') WHERE id = ?", space)
	db.change(t, "UPDATE object_syncrun SET spec = json_set(spec, '$.stop', json('true')) WHERE id = ?", run)
	for _, c := range all { // what is no JSON, without anybody being told
		db.change(t, "UPDATE object_"+c.kind+" SET status = ? WHERE id = ?", "{garbled", c.id)
	}
	w.run(t, "get", "deployments")
	end = time.Now().Add(time.Minute)
	db.within(t, end, "workspace", space, "as it was", func(spec, _ string) bool { return spec == right[space] })
	w.putRightTold(t, ns, space)
	db.within(t, end, "syncrun", run, "as it was", func(spec, _ string) bool { return spec == right[run] })
	for _, c := range all {
		db.within(t, end, c.kind, c.id, "readable", func(_, phase string) bool { return phase == c.phase && db.legible(t, c.kind, c.id) })
	}
	before = orders()

	for _, c := range all {
		db.change(t, "DELETE FROM object_"+c.kind+" WHERE id = ?", c.id)
	}
	end = time.Now().Add(time.Minute)
	for _, c := range all {
		db.within(t, end, c.kind, c.id, "there again", func(spec, _ string) bool { return spec != "" })
	}
	w = w.within(time.Minute)
	for _, c := range all {
		db.within(t, time.Now().Add(w.limit), c.kind, c.id, c.phase, func(_, phase string) bool { return phase == c.phase })
	}
	if orders() <= before { // it is asked for once more, which an operation tells
		t.Error("no operation tells that the deployment was taken in again")
	}
	if now := w.ended(t, ns, "once", "Succeeded"); argocd.Field(now, "status.finishedAt") != argocd.Field(once, "status.finishedAt") {
		t.Error("a sync run that had ended was carried out again")
	}
	w.value(t, ns, "b", "2")
	w.credential(t, ns, "RepositoryCredentialUpToDate")
	w.connected(t, ns, "mine", "Succeeded")

	second := repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "2")})
	w.push(t, repo, "main", w.pushSecret(t))
	w.value(t, ns, "a", "2")
	w.value(t, there, "a", "2")
	o := w.synced(t, ns, "shop", second)
	if state, _, _ := unstructured.NestedString(o.Object, "status", "health", "status"); state != "Healthy" {
		t.Errorf("its health is %q", state)
	}
	if w.get(t, configMaps, ns, "a").GetUID() != live || w.get(t, applications, w.a.Namespace, application(uid)).GetUID() != app {
		t.Error("what was deployed is another one: it was removed and made anew")
	}
}
