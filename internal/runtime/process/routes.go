package process

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Routes is the reverse proxy that gives each instance its host. It answers
// for ready instances alone and tells nothing about others.
type Routes struct {
	r     *Runtime
	proxy *httputil.ReverseProxy
}

type portKey struct{}

// Routes returns the handler of the routes' listener.
func (r *Runtime) Routes() *Routes {
	transport := &http.Transport{
		DialContext:           (&net.Dialer{Timeout: 2 * time.Second}).DialContext,
		MaxIdleConns:          1024,
		MaxIdleConnsPerHost:   64,
		IdleConnTimeout:       30 * time.Second,
		ResponseHeaderTimeout: time.Minute,
		DisableCompression:    true, // what the instance says is passed on as it is
	}
	return &Routes{r: r, proxy: &httputil.ReverseProxy{
		Rewrite: func(pr *httputil.ProxyRequest) {
			port, _ := pr.In.Context().Value(portKey{}).(int)
			pr.SetURL(&url.URL{Scheme: "http", Host: loopback(port)})
			pr.Out.Host = pr.In.Host
			pr.SetXForwarded()
		},
		Transport:     transport,
		FlushInterval: -1, // streams are passed on as they come
		ErrorLog:      slog.NewLogLogger(r.cfg.Logger.Handler(), slog.LevelDebug),
		ErrorHandler: func(w http.ResponseWriter, req *http.Request, err error) {
			var op *net.OpError
			if errors.As(err, &op) && op.Op == "dial" {
				unavailable(w)
				return
			}
			http.Error(w, "the service ended the connection", http.StatusBadGateway)
		},
	}}
}

func (rs *Routes) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	port, known := rs.r.lookup(canonical(req.Host))
	switch {
	case !known:
		http.Error(w, "no such route", http.StatusNotFound)
	case port == 0:
		unavailable(w)
	default:
		rs.proxy.ServeHTTP(w, req.WithContext(context.WithValue(req.Context(), portKey{}, port)))
	}
}

func unavailable(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	http.Error(w, "the service is not ready", http.StatusServiceUnavailable)
}

// lookup returns the port behind the host, 0 if nothing is ready there.
func (r *Runtime) lookup(host string) (port int, known bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, in := range slices.Backward(r.hosts[host]) { // the newest of those that claim it
		if port = int(in.target.Load()); port != 0 {
			return port, true
		}
	}
	return 0, len(r.hosts[host]) > 0
}

// setHost moves the instance's route; in.mu is held. Where two claim a host, the
// one that claimed it last has it while it is ready.
func (in *instance) setHost(host string) {
	if host == in.host {
		return
	}
	r := in.r
	r.mu.Lock()
	defer r.mu.Unlock()
	if in.host != "" {
		if left := slices.DeleteFunc(r.hosts[in.host], func(o *instance) bool { return o == in }); len(left) > 0 {
			r.hosts[in.host] = left
		} else {
			delete(r.hosts, in.host)
		}
	}
	if in.host = host; host != "" {
		r.hosts[host] = append(r.hosts[host], in)
	}
}

func canonical(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
