package process_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/process"
)

// TestMain makes this binary the instances, and the agents that are killed.
func TestMain(m *testing.M) {
	switch os.Getenv("ROLE") {
	case "serve":
		serve()
	case "linger":
		never := make(chan os.Signal, 1)
		signal.Notify(never, syscall.SIGHUP)
		<-never
	case "crash":
		fmt.Println("I fell over")
		os.Exit(3)
	case "agent":
		agent()
	default:
		os.Exit(m.Run())
	}
}

// serve is an instance.
func serve() {
	if os.Getenv("DEAF") != "" {
		signal.Ignore(syscall.SIGTERM)
	}
	if os.Getenv("FAMILY") != "" {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), "ROLE=linger")
		c.SysProcAttr = apart()
		if err := c.Start(); err != nil {
			panic(err)
		}
	}
	http.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		if _, err := os.Stat("sick"); err == nil {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	http.HandleFunc("/env", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(os.Environ())
	})
	http.HandleFunc("/pid", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, os.Getpid()) })
	http.HandleFunc("/headers", func(w http.ResponseWriter, r *http.Request) {
		h := r.Header.Clone()
		h.Set("Host", r.Host)
		_ = json.NewEncoder(w).Encode(h)
	})
	http.HandleFunc("/stream", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "first")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done() // the reader must have had the first line by now
	})
	http.HandleFunc("/upgrade", func(w http.ResponseWriter, r *http.Request) {
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer c.Close()
		fmt.Fprint(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_ = rw.Flush()
		line, _ := rw.ReadString('\n')
		fmt.Fprint(rw, strings.ToUpper(line))
		_ = rw.Flush()
	})
	if err := http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), nil); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// agent applies the item of its environment and is killed at a step.
func agent() {
	var it runtime.Item
	if err := json.Unmarshal([]byte(os.Getenv("ITEM")), &it); err != nil {
		panic(err)
	}
	cfg := process.WithStep(config(os.Getenv("DIR")), func(step string) {
		if step == os.Getenv("STEP") {
			self, _ := os.FindProcess(os.Getpid())
			_ = self.Kill()
			select {}
		}
	})
	rt, err := process.Open(cfg)
	if err != nil {
		panic(err)
	}
	if err := rt.Apply(context.Background(), it); err != nil {
		panic(err)
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // until the step, or the test's end
}

func config(dir string) process.Config {
	return process.Config{Dir: dir, Self: os.Args[0], Capacity: 20, Grace: 2 * time.Second,
		Interval: 20 * time.Millisecond, Patience: 300 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)}
}

// doc is a desired document that runs serve.
func doc(host, word string, env map[string]string) json.RawMessage {
	if env == nil {
		env = map[string]string{}
	}
	if env["ROLE"] == "" {
		env["ROLE"] = "serve"
	}
	b, err := json.Marshal(map[string]any{"spec": map[string]any{
		"endpoint": map[string]any{"host": host},
		"versions": map[string]any{"app": word},
		"process":  map[string]any{"command": []string{"drover"}, "env": env, "health": "/healthz"},
	}})
	if err != nil {
		panic(err)
	}
	return b
}

// open makes a runtime; everything in it is ended with the test.
func open(t *testing.T, dir string) (*process.Runtime, func()) {
	t.Helper()
	rt, err := process.Open(config(dir))
	if err != nil {
		t.Fatal(err)
	}
	return rt, func() {
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	}
}

func apply(t *testing.T, rt *process.Runtime, it runtime.Item) {
	t.Helper()
	if err := rt.Apply(t.Context(), it); err != nil {
		t.Fatal(err)
	}
}

// await follows Changed until the item passes.
func await(t *testing.T, rt *process.Runtime, id string, pass func(runtime.Observed) bool) runtime.Observed {
	t.Helper()
	limit := time.After(2 * time.Minute)
	var last runtime.Observed
	for {
		all, err := rt.Observe(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range all {
			if last = o; o.ID == id && pass(o) {
				return o
			}
		}
		select {
		case <-rt.Changed():
		case <-limit:
			t.Fatalf("%s does not get there: %+v", id, last)
		}
	}
}

func is(state runtime.State) func(runtime.Observed) bool {
	return func(o runtime.Observed) bool { return o.State == state }
}

// failing is an error that says so.
func failing(words string) func(runtime.Observed) bool {
	return func(o runtime.Observed) bool {
		return o.State == runtime.Error && strings.Contains(o.Message, words)
	}
}

func remove(t *testing.T, rt *process.Runtime, id string) {
	t.Helper()
	if err := rt.Apply(context.Background(), runtime.Item{ID: id, Generation: 1 << 40, Token: 1 << 40, Delete: true}); err != nil {
		t.Fatal(err)
	}
	await(t, rt, id, is(runtime.Deleted))
}

func nonce(t *testing.T, dir, id string) string {
	t.Helper()
	var it struct{ Nonce string }
	b, err := os.ReadFile(filepath.Join(dir, id, "item.json"))
	if err == nil {
		err = json.Unmarshal(b, &it)
	}
	if err != nil {
		t.Fatal(err)
	}
	return it.Nonce
}

func carriers(t *testing.T, nonce string) []int {
	t.Helper()
	pids, err := process.Carriers(nonce)
	if err != nil {
		t.Fatal(err)
	}
	return pids
}

func get(t *testing.T, address, path string) string {
	t.Helper()
	res, err := http.Get("http://" + address + path)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
