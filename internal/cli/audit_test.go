package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/cli"
)

// archive is a server that knows ten records and its head.
func archive(t *testing.T, flaw *v1.Flaw) *httptest.Server {
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
	mux.HandleFunc("GET /api/v1/audit", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		after, _ := strconv.Atoi(q.Get("after"))
		before, _ := strconv.Atoi(q.Get("before"))
		out := v1.AuditRecords{Items: []v1.AuditRecord{}}
		add := func(n int) {
			if actor := fmt.Sprint("user", n%2); q.Get("actor") == "" || q.Get("actor") == actor {
				out.Items = append(out.Items, v1.AuditRecord{Seq: int64(n), At: born.Add(time.Duration(n) * time.Hour), Actor: actor, From: "10.0.0.7", Verb: "create", Kind: "instance", ID: "i", Name: "rex", Org: "acme", Outcome: "done", Request: "req"})
			}
		}
		if q.Get("oldest") == "true" { // three at a time, whatever is asked for
			for n := after + 1; n <= min(after+3, 10); n++ {
				add(n)
				out.Next = int64(n)
			}
			if out.Next == 10 {
				out.Next = 0
			}
		} else {
			if before == 0 {
				before = 11
			}
			for n := before - 1; n >= max(before-3, 1); n-- {
				add(n)
				out.Next = int64(n)
			}
			if out.Next == 1 {
				out.Next = 0
			}
		}
		answer(w, out)
	})
	mux.HandleFunc("GET /api/v1/ledger/heads", func(w http.ResponseWriter, r *http.Request) {
		answer(w, v1.Heads{Ledger: "l1", Heads: []v1.SealedHead{{Block: 3}}, Text: "ledger l1\nhead 3\n"})
	})
	mux.HandleFunc("POST /api/v1/ledger/changes/{seq}/erase", func(w http.ResponseWriter, r *http.Request) {
		var in v1.EraseChange
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Reason != "a card number" {
			t.Error(in, err)
		}
		seq, _ := strconv.ParseInt(r.PathValue("seq"), 10, 64)
		answer(w, v1.Erasure{Seq: seq, Of: "instance/rex"})
	})
	mux.HandleFunc("POST /api/v1/ledger/verify", func(w http.ResponseWriter, r *http.Request) {
		var in v1.VerifyRequest
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		data, _ := json.Marshal(v1.Verification{Ledger: "l1", Blocks: 3, Changes: 10, Heads: len(in.Heads), Flaw: flaw})
		fmt.Fprintf(w, "event: progress\ndata: {\"changes\":5,\"of\":10}\n\nevent: done\ndata: %s\n\n", data)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

// audited runs a command line.
func audited(t *testing.T, server *httptest.Server, verify cli.Verifier, args ...string) (code int, out, complaints string) {
	t.Helper()
	var o, e bytes.Buffer
	empty := t.TempDir()
	code = cli.New(cli.Config{Out: &o, Err: &e, Verify: verify, Getenv: func(name string) string {
		return map[string]string{"XDG_CONFIG_HOME": empty, "DROVER_SERVER": server.URL, "DROVER_TOKEN": "t"}[name]
	}}).Run(t.Context(), args)
	return code, o.String(), e.String()
}

func TestAuditIsShown(t *testing.T) {
	server := archive(t, nil)
	for _, c := range []struct {
		reason string
		args   []string
		code   int
		lines  int // of standard output
		has    string
	}{
		{"a table", []string{"audit"}, 0, 11, "10.0.0.7"},
		{"as many as are asked for", []string{"audit", "--limit", "4"}, 0, 5, "user1"},
		{"lines of JSON", []string{"audit", "-o", "jsonl", "--actor", "user1"}, 0, 5, `"actor":"user1"`},
		{"a time", []string{"audit", "--since", "7d", "-o", "jsonl"}, 0, 10, "rex"},
		{"no time", []string{"audit", "--since", "yesterday"}, 2, 0, ""},
		{"a limit that there is not", []string{"audit", "--limit", "0"}, 2, 0, ""},
		{"heads", []string{"ledger", "heads"}, 0, 3, "head 3"},
		{"a content is erased", []string{"ledger", "erase", "7", "--reason", "a card number", "--yes"}, 0, 1, "change 7 of instance/rex erased"},
		{"not without a reason", []string{"ledger", "erase", "7", "--yes"}, 2, 0, ""},
		{"nor without a word of a person", []string{"ledger", "erase", "7", "--reason", "a card number"}, 2, 0, ""},
		{"nor what is no change", []string{"ledger", "erase", "rex", "--reason", "a card number", "--yes"}, 2, 0, ""},
		{"heads as JSON", []string{"ledger", "heads", "-o", "json"}, 0, 15, `"block": 3`},
	} {
		code, out, complaints := audited(t, server, nil, c.args...)
		if code != c.code || strings.Count(out, "\n") != c.lines || !strings.Contains(out, c.has) {
			t.Errorf("%s: %d\n%s%s", c.reason, code, out, complaints)
		}
	}
}

func TestAuditIsExported(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	if code, _, complaints := audited(t, archive(t, nil), nil, "audit", "--export", path); code != 0 || !strings.Contains(complaints, "10 records") {
		t.Fatalf("%d %s", code, complaints)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		var r v1.AuditRecord
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.Seq != int64(i)+1 {
			t.Errorf("line %d is %s: %v", i+1, line, err)
		}
	}
	if left, _ := filepath.Glob(path + ".*"); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

func TestVerifyTellsByItsExitCode(t *testing.T) {
	flaw := &v1.Flaw{Kind: "content", Seq: 7, Block: 2, Of: "instance/i", Text: "what change 7 says is not what was sealed"}
	heads := filepath.Join(t.TempDir(), "heads.txt")
	if err := os.WriteFile(heads, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	var seen cli.ServerSettings
	offline := func(_ context.Context, s cli.ServerSettings, kept []byte, _ func(int64, int64)) (cli.Verification, error) {
		if seen = s; s.DataDir == "nowhere" {
			return cli.Verification{}, errors.New("there is no ledger")
		}
		return cli.Verification{Ledger: "l2", Heads: len(kept)}, nil
	}
	for _, c := range []struct {
		reason string
		flaw   *v1.Flaw
		args   []string
		code   int
		out    string
	}{
		{"it holds", nil, nil, 0, "It holds. Whether the newest blocks were removed, or all of it was written anew, only heads"},
		{"against heads", nil, []string{"--against", heads}, 0, "1 that were kept elsewhere are this ledger's\nIt holds. Whether blocks after the newest"},
		{"no such file", nil, []string{"--against", heads + "x"}, 2, ""},
		{"it does not hold", flaw, nil, 1, "FLAW:      content, change 7, block 2, instance/i"},
		{"nor as JSON", flaw, []string{"-o", "json"}, 1, `"kind": "content"`},
		{"without a server", flaw, []string{"--data-dir", "somewhere", "--against", heads}, 0, "Ledger:    l2"},
		{"a database", flaw, []string{"--database", "postgres://h/d"}, 0, "Ledger:    l2"},
		{"no database", flaw, []string{"--database", "mysql://h/d"}, 2, ""},
		{"it could not be verified", nil, []string{"--data-dir", "nowhere"}, 2, ""},
	} {
		code, out, complaints := audited(t, archive(t, c.flaw), offline, append([]string{"ledger", "verify"}, c.args...)...)
		if code != c.code || !strings.Contains(out, c.out) {
			t.Errorf("%s: %d\n%s%s", c.reason, code, out, complaints)
		}
		if c.flaw != nil && code == 1 && !strings.Contains(complaints, c.flaw.Text) {
			t.Errorf("%s: it complains %s", c.reason, complaints)
		}
	}
	if seen.DataDir != "nowhere" {
		t.Errorf("the last directory was %q", seen.DataDir)
	}
}
