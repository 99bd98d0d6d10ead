package rabbitmq

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Mount has the node start anew as a container of it does: with files that a kubelet
// lays at a path, rabbitmq.conf and enabled_plugins among them. It keeps its data and its
// accounts. The ports that the image listens on by TLS are of loopback, and are Secure
// and Managed from then on; URL and Addr are none of its any more.
func (s *Server) Mount(t testing.TB, path string, files map[string][]byte) {
	t.Helper()
	s.Stop(t)
	s.Secure = strings.Trim(strings.TrimPrefix(s.TLS, "amqps:"), "/")
	dir := s.leash.File("mounted")
	must(t, os.RemoveAll(dir))
	must(t, os.Mkdir(dir, 0o700))
	const port = "listeners.ssl.default = 5671\n"
	for name, data := range files {
		must(t, os.WriteFile(filepath.Join(dir, name), data, 0o400))
		own := s.leash.File(name)
		switch name {
		case "rabbitmq.conf":
			text := strings.ReplaceAll(string(data), path+"/", dir+"/")
			if strings.Count(text, port) != 1 {
				t.Fatalf("it does not listen by TLS: %s", text)
			}
			text = strings.Replace(text, "management.ssl.port = 15671\n", "management.ssl.ip = 127.0.0.1\nmanagement.ssl.port = "+s.managed(t)+"\n", 1)
			data = []byte(strings.Replace(text, port, "listeners.ssl.1 = "+s.Secure+"\n", 1) + "disk_free_limit.absolute = " + enough + "\n")
		case "enabled_plugins":
		default:
			continue
		}
		must(t, os.Remove(own))
		must(t, os.WriteFile(own, data, 0o400))
	}
	s.Start(t)
}

// managed is the port of the API that makes accounts, the same with each Mount.
func (s *Server) managed(t testing.TB) string {
	t.Helper()
	if s.Managed == "" {
		port, err := s.leash.Ports(1)
		must(t, err)
		s.Managed = "https://127.0.0.1:" + port[0]
	}
	return s.Managed[strings.LastIndexByte(s.Managed, ':')+1:]
}

// answers is nil when the node listens for who shows a certificate.
func (s *Server) answers(ctx context.Context) error {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.Secure)
	if err != nil {
		return err
	}
	return c.Close()
}
