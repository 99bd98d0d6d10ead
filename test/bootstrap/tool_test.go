//go:build e2e && linux

package bootstrap_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/droverhq/drover/test/servers"
	"github.com/droverhq/drover/test/servers/built"
	"github.com/droverhq/drover/test/servers/process"
)

// tool is a server that its files say everything of.
type tool struct {
	leash *process.Leash
	ports []string
	run   *process.Process
}

// tool runs Consul or OpenBao with the arguments and the files of its pod, again with
// the same data where the pod is not the first. Files, data and ports are where they can be here.
func (p *plane) tool(pod corev1.Pod) {
	p.t.Helper()
	name := pod.Labels["app"]
	from, port, path := built.Consul, 8501, "/v1/catalog/nodes"
	if name == "openbao" {
		from, port, path = built.OpenBao, 8200, "/v1/sys/health"
	}
	x := p.tools[name]
	if x == nil {
		x = &tool{}
		var err error
		if x.leash, err = process.NewLeash(name); err != nil {
			p.t.Fatal(err)
		}
		p.t.Cleanup(x.leash.Release)
		if x.ports, err = x.leash.Ports(3); err != nil {
			p.t.Fatal(err)
		}
		p.tools[name] = x
	} else if err := x.run.Stop(); err != nil {
		p.t.Fatal(err)
	}
	p.is(pod, port, "127.0.0.1:"+x.ports[0])
	here := strings.NewReplacer(`"/config/`, `"`+x.leash.Dir+"/config/", "=/config/", "="+x.leash.Dir+"/config/", "/consul/data", x.leash.Dir+"/data", "/openbao/data", x.leash.Dir+"/data",
		`"https": 8501`, fmt.Sprintf(`"https": %s, "server": %s, "serf_lan": %s`, x.ports[0], x.ports[1], x.ports[2]), `"client_addr": "0.0.0.0"`, `"client_addr": "127.0.0.1"`,
		"0.0.0.0:8200", "127.0.0.1:"+x.ports[0], "127.0.0.1:8201", "127.0.0.1:"+x.ports[1])
	for _, dir := range []string{"config", "data"} {
		if err := os.MkdirAll(x.leash.File(dir), 0o700); err != nil {
			p.t.Fatal(err)
		}
	}
	for file, data := range p.files(pod, "config") {
		if err := os.WriteFile(filepath.Join(x.leash.File("config"), file), []byte(here.Replace(p.ported(string(data)))), 0o600); err != nil {
			p.t.Fatal(err)
		}
	}
	dir, err := servers.Build(p.t.Context(), from, os.Stderr)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(x.leash.File("hosts"), []byte(hosts), 0o644); err != nil {
		p.t.Fatal(err)
	}
	args := append(apart(), `mount --bind "$0/hosts" /etc/hosts
exec "$@"`, x.leash.Dir, filepath.Join(dir, from.Binary))
	for _, a := range pod.Spec.Containers[0].Args {
		args = append(args, here.Replace(a))
	}
	x.run = x.leash.Process(name, args[0], args[1:]...)
	for name, value := range p.env(pod) {
		x.run.Env = append(x.run.Env, here.Replace(name+"="+value))
	}
	web := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: p.trusts(name, false)}}
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	err = x.run.Ready(ctx, func(ctx context.Context) error {
		ask, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://127.0.0.1:"+x.ports[0]+path, nil)
		if err != nil {
			return err
		}
		res, err := web.Do(ask)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("it answers %s", res.Status)
		}
		return nil
	})
	if err != nil {
		p.t.Fatal(err)
	}
}
