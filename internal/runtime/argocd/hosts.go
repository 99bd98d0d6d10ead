package argocd

import (
	"context"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // it is what known_hosts files hash names with
	"encoding/base64"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/keep"
)

// Argo CD trusts one list of host keys for all. Ours stand at its end, each with
// the workspace that it is of.
const (
	hostsName   = "argocd-ssh-known-hosts-cm"
	hostsKey    = "ssh_known_hosts"
	hostsBorder = "# What follows is kept by drover."
)

var settings = kind{schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "ConfigMap"}

// hostText is one host. Anything else would be taken for several, or for a pattern
// of them, by whoever reads the list.
var hostText = regexp.MustCompile(`^[A-Za-z0-9_.:-]+$`)

// hostOf an address of SSH as known_hosts files have it; empty: it is of another
// kind, or names no single host.
func hostOf(repository string) string {
	host := addressed(repository)
	if bare := strings.TrimPrefix(host, "["); !hostText.MatchString(strings.Replace(bare, "]:", ":", 1)) {
		return ""
	}
	return host
}

func addressed(repository string) string {
	if u, err := url.Parse(repository); err == nil && u.Scheme == "ssh" {
		if p := u.Port(); p != "" && p != "22" {
			return "[" + u.Hostname() + "]:" + p
		}
		return u.Hostname()
	}
	if at, _, ok := strings.Cut(repository, ":"); ok && !strings.Contains(repository, "://") {
		_, host, user := strings.Cut(at, "@")
		if user && !strings.Contains(host, "/") {
			return host
		}
	}
	return ""
}

// keysOf a host that a known_hosts file has: "<type> <key>", in order.
func keysOf(file, host string) []string {
	var out []string
	for line := range strings.Lines(file) {
		f := strings.Fields(line)
		if len(f) < 3 || strings.HasPrefix(f[0], "#") || strings.HasPrefix(f[0], "@") {
			continue
		}
		if slices.ContainsFunc(strings.Split(f[0], ","), func(p string) bool { return p == host || hashed(p, host) }) {
			if _, err := base64.StdEncoding.DecodeString(f[2]); err == nil {
				out = append(out, f[1]+" "+f[2])
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// hashed reports whether a pattern is the hash of a host.
func hashed(pattern, host string) bool {
	parts := strings.Split(pattern, "|")
	if len(parts) != 4 || parts[1] != "1" {
		return false
	}
	salt, err := base64.StdEncoding.DecodeString(parts[2])
	if err != nil {
		return false
	}
	h := hmac.New(sha1.New, salt)
	h.Write([]byte(host))
	return base64.StdEncoding.EncodeToString(h.Sum(nil)) == parts[3]
}

// trust adds the keys of hosts that deployments need to a list. It is pure. A host
// that the operator lists is the operator's. Otherwise all keys count that workspaces
// bring, each for as long as one needs it: whoever came first must not shut others
// out. The control plane hands on no key that the host has not shown to it. Whole: all
// deployments are known; otherwise what we added before stays, as others may need it.
func trust(file string, all []runtime.Deployment, whole bool) string {
	operators, ours, _ := strings.Cut(file, hostsBorder)
	wanted := map[string]map[string][]string{} // by host and workspace
	add := func(host, of string, keys ...string) {
		if len(keys) == 0 || len(keysOf(operators, host)) > 0 {
			return
		}
		if wanted[host] == nil {
			wanted[host] = map[string][]string{}
		}
		wanted[host][of] = append(wanted[host][of], keys...)
	}
	for _, d := range all {
		if host := hostOf(d.Repository); host != "" && d.Credential != nil {
			add(host, label(d.Workspace), keysOf(d.Credential.KnownHosts, host)...)
		}
	}
	for line := range strings.Lines(ours) {
		if f := strings.Fields(line); !whole && len(f) == 4 {
			add(f[0], f[3], f[1]+" "+f[2])
		}
	}
	var lines []string
	for _, host := range slices.Sorted(maps.Keys(wanted)) {
		owners := map[string]string{} // of keys: the first of those who bring one
		for _, workspace := range slices.Backward(slices.Sorted(maps.Keys(wanted[host]))) {
			for _, key := range wanted[host][workspace] {
				owners[key] = workspace
			}
		}
		for _, key := range slices.Sorted(maps.Keys(owners)) {
			lines = append(lines, host+" "+key+" "+owners[key]+"\n")
		}
	}
	operators = strings.TrimRight(operators, "\n")
	if operators != "" {
		operators += "\n"
	}
	if len(lines) == 0 {
		return operators
	}
	return operators + hostsBorder + "\n" + strings.Join(lines, "")
}

// bringsHosts reports whether a deployment says whom to trust.
func bringsHosts(d runtime.Deployment) bool {
	return d.Credential != nil && d.Credential.KnownHosts != "" && hostOf(d.Repository) != ""
}

// secure has Argo CD trust the hosts that deployments are read from.
func (s *shift) secure(ctx context.Context, w *writer, d runtime.Deployment) error {
	if !bringsHosts(d) {
		return nil
	}
	s.hosts.Lock()
	defer s.hosts.Unlock()
	for range 4 {
		now, err := s.r.live(ctx, settings, hostsName)
		if err != nil {
			return err
		}
		if now == nil {
			if err := s.firstHosts(ctx, w); err != nil {
				return err
			}
			continue
		}
		before, _, _ := unstructured.NestedString(now.Object, "data", hostsKey)
		after := trust(before, s.needs.all(), s.r.told.whole())
		if sameHosts(before, after) {
			s.hosted = oursOf(after)
			return nil
		}
		next := now.DeepCopy()
		if err := unstructured.SetNestedField(next.Object, after, "data", hostsKey); err != nil {
			return err
		}
		s.unhosted = false
		theirs := s.hosted != "" && oursOf(before) != s.hosted
		s.known(settings, hostsName)
		noted, err := w.notice(ctx, settings, hostsName, "changed", theirs)
		if err != nil {
			return err
		}
		err = w.patch(ctx, settings, now, next)
		if err == nil {
			if s.hosted = oursOf(after); theirs {
				return w.heal(settings, hostsName, "changed")
			}
			return nil
		}
		if !apierrors.IsConflict(err) {
			return s.r.explain(err, settings, hostsName)
		}
		w.unsay(noted)
	}
	return fault.New(fault.Unavailable, "Argo CD's list of host keys was changed by others all the time; it is tried again").Because("changed-meanwhile")
}

// distrust takes keys off Argo CD's list that no deployment needs any more, where none is
// left that would. It takes no other lines, and none before all deployments are known.
func (s *shift) distrust(ctx context.Context) error {
	s.hosts.Lock()
	defer s.hosts.Unlock()
	if s.unhosted || !s.r.told.whole() {
		return nil
	}
	now, err := s.r.live(ctx, settings, hostsName)
	if err != nil || now == nil { // no list has nothing to take off
		return err
	}
	before, _, _ := unstructured.NestedString(now.Object, "data", hostsKey)
	after := trust(before, s.needs.all(), true)
	if sameHosts(before, after) {
		s.unhosted = oursOf(after) == ""
		return nil
	}
	next := now.DeepCopy()
	if err := unstructured.SetNestedField(next.Object, after, "data", hostsKey); err != nil {
		return err
	}
	w := &writer{s: s, passed: true} // it is no item's: the lease is what it is written under
	if err := w.patch(ctx, settings, now, next); err != nil {
		return s.r.explain(err, settings, hostsName) // also where somebody else wrote: the next look finds it
	}
	s.hosted, s.unhosted = oursOf(after), oursOf(after) == ""
	return nil
}

func sameHosts(a, b string) bool { return strings.TrimRight(a, "\n") == strings.TrimRight(b, "\n") }

// oursOf a list is what stands behind the border.
func oursOf(file string) string {
	_, ours, _ := strings.Cut(file, hostsBorder)
	return strings.TrimSpace(ours)
}

// firstHosts makes the list where an installation has none.
func (s *shift) firstHosts(ctx context.Context, w *writer) error {
	if err := w.fence(ctx); err != nil {
		return err
	}
	call, stop := context.WithTimeout(ctx, keep.CallTimeout)
	defer stop()
	o := &unstructured.Unstructured{Object: object{"apiVersion": "v1", "kind": "ConfigMap", "data": object{hostsKey: ""},
		"metadata": object{"name": hostsName, "namespace": s.r.cfg.ArgoCD, "labels": object{"app.kubernetes.io/part-of": "argocd"}}}}
	_, err := s.r.in(settings).Create(call, o, metav1.CreateOptions{FieldManager: managedBy})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return s.r.explain(err, settings, hostsName)
}
