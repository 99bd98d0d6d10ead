package process_test

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/droverhq/drover/internal/runtime"
)

// Somebody else may take the port before the instance does: users must not be
// sent there.
func TestStrangerOnThePortIsNotTheInstance(t *testing.T) {
	dir := t.TempDir()
	rt, stop := open(t, dir)
	defer stop()
	apply(t, rt, runtime.Item{ID: "a", Generation: 1, Token: 1, Body: doc("a.test", "1", map[string]string{"ROLE": "linger"})})
	defer remove(t, rt, "a")
	await(t, rt, "a", is(runtime.Error)) // it runs and does not listen
	var p struct{ Port int }
	b, err := os.ReadFile(filepath.Join(dir, "a", "process.json"))
	if err == nil {
		err = json.Unmarshal(b, &p)
	}
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(p.Port))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	go server.Serve(l) // ends with Close
	defer server.Close()
	await(t, rt, "a", func(o runtime.Observed) bool {
		if o.State == runtime.Ready {
			t.Fatal("a stranger was taken for the instance")
		}
		return strings.Contains(o.Message, "another program")
	})
}
