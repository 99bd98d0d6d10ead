package keep

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/manifest"
)

const (
	keepLabel = "drover.dev/keeps" // item, store, part
	partsMark = "drover.dev/parts" // names of the Secrets that hold the rest
	dataKey   = "data"
)

// CallTimeout is how long one call of the cluster may take.
const CallTimeout = 15 * time.Second

// keeper holds bytes in Secrets of one namespace, large ones in several: the
// parts first, under names that tell their content, then the head that lists
// them. So what is listed is always there, whenever the agent is killed.
type keeper struct {
	kube      client.Client
	namespace string
}

// kept is what a head and its parts hold.
type kept struct {
	parts   [][]byte
	names   []string // of the Secrets after the head
	version string   // of the head, that a write must still find
	// sound are the versions in which the rest was found to hold what it should, by name.
	sound map[string]string
	// damaged: a part is not there, or another. It can be written over.
	damaged bool
}

func (k keeper) explain(err error, name string) error {
	return manifest.Explain(err, manifest.ID{Kind: "Secret", Namespace: k.namespace, Name: name})
}

// put writes a head over the one that was read; a zero was means that there is
// none yet. A head that somebody else wrote since is fault.Conflict.
func (k keeper) put(ctx context.Context, kind, name string, parts [][]byte, was kept) (kept, error) {
	ctx, stop := context.WithTimeout(ctx, CallTimeout)
	defer stop()
	now := kept{parts: parts, sound: map[string]string{}}
	for i, p := range parts[min(1, len(parts)):] {
		part, err := k.putPart(ctx, fmt.Sprintf("%s-p%d", name, i+1), p)
		if err != nil {
			return was, k.explain(err, part.Name)
		}
		now.names, now.sound[part.Name] = append(now.names, part.Name), part.ResourceVersion
	}
	s := k.secret(kind, name, nil)
	if len(parts) > 0 {
		s.Data = map[string][]byte{dataKey: parts[0]}
	}
	if len(now.names) > 0 {
		s.Annotations = map[string]string{partsMark: strings.Join(now.names, ",")}
	}
	s.ResourceVersion = was.version
	var err error
	if was.version == "" {
		err = k.kube.Create(ctx, s)
	} else {
		err = k.kube.Update(ctx, s)
	}
	switch {
	case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err), was.version != "" && apierrors.IsNotFound(err):
		return was, fault.New(fault.Unavailable, "another replica of the agent has written %s; it is tried again", name).Because("written-meanwhile")
	case err != nil:
		return was, k.explain(err, name)
	}
	now.version = s.ResourceVersion
	for _, old := range was.names {
		if !slices.Contains(now.names, old) {
			_ = k.kube.Delete(ctx, k.secret("part", old, nil)) // swept at the next start otherwise
		}
	}
	return now, nil
}

// putPart writes a part. One that is there is left as it is; if somebody has put something
// else in its place, it gets another name, so that what the head lists stays until the next
// one is written.
func (k keeper) putPart(ctx context.Context, prefix string, data []byte) (corev1.Secret, error) {
	part := k.secret("part", prefix+"-"+partDigest(data), data)
	part.Immutable = new(true)
	err := k.kube.Create(ctx, part)
	if !apierrors.IsAlreadyExists(err) {
		return *part, err
	}
	there, err := k.part(ctx, part.Name)
	if err != nil || soundPart(there) {
		return there, err
	}
	part.Name = prefix + "-" + partDigest([]byte(there.UID)) + "-" + partDigest(data) // the same with each try
	if err = k.kube.Create(ctx, part); apierrors.IsAlreadyExists(err) {
		return k.part(ctx, part.Name)
	}
	return *part, err
}

// part reads a part; one that is not there is empty.
func (k keeper) part(ctx context.Context, name string) (p corev1.Secret, err error) {
	err = k.kube.Get(ctx, client.ObjectKey{Namespace: k.namespace, Name: name}, &p)
	return p, client.IgnoreNotFound(err)
}

func partDigest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:4])
}

// soundPart reports whether a part holds what its name says.
func soundPart(p corev1.Secret) bool {
	return strings.HasSuffix(p.Name, "-"+partDigest(p.Data[dataKey])) && p.Labels[keepLabel] == "part"
}

func (k keeper) secret(kind, name string, data []byte) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: k.namespace, Labels: map[string]string{keepLabel: kind}}}
	if data != nil {
		s.Data = map[string][]byte{dataKey: data}
	}
	return s
}

// get reads one head with its parts, damaged as they may be; false: there is none.
func (k keeper) get(ctx context.Context, name string) (kept, bool, error) {
	ctx, stop := context.WithTimeout(ctx, CallTimeout)
	defer stop()
	var s corev1.Secret
	err := k.kube.Get(ctx, client.ObjectKey{Namespace: k.namespace, Name: name}, &s)
	if apierrors.IsNotFound(err) {
		return kept{}, false, nil
	}
	if err != nil {
		return kept{}, false, k.explain(err, name)
	}
	out := head(s)
	for _, part := range out.names {
		p, err := k.part(ctx, part)
		if err != nil {
			return kept{}, false, k.explain(err, part)
		}
		out.parts = append(out.parts, p.Data[dataKey])
		out.damaged = out.damaged || !soundPart(p)
	}
	return out, true, nil
}

// look returns the version and the labels of a head, without its content; empty:
// there is none.
func (k keeper) look(ctx context.Context, name string) (version string, labels map[string]string, err error) {
	ctx, stop := context.WithTimeout(ctx, CallTimeout)
	defer stop()
	m := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}}
	err = k.kube.Get(ctx, client.ObjectKey{Namespace: k.namespace, Name: name}, m)
	if apierrors.IsNotFound(err) {
		return "", nil, nil
	}
	return m.ResourceVersion, m.Labels, k.explain(err, name)
}

func head(s corev1.Secret) kept {
	out := kept{version: s.ResourceVersion, parts: [][]byte{s.Data[dataKey]}}
	if names := s.Annotations[partsMark]; names != "" {
		out.names = strings.Split(names, ",")
	}
	return out
}

// all reads every head of a kind, and sweeps parts that none lists.
func (k keeper) all(ctx context.Context, kind, prefix string) (map[string]kept, error) {
	heads, err := k.list(ctx, kind)
	if err != nil {
		return nil, err
	}
	parts, err := k.list(ctx, "part")
	if err != nil {
		return nil, err
	}
	out, used := map[string]kept{}, map[string]bool{}
	for name, s := range heads {
		h := head(s)
		for _, part := range h.names {
			used[part] = true
			h.parts = append(h.parts, parts[part].Data[dataKey])
		}
		out[name] = h
	}
	for name, p := range parts {
		// Parts of the other kinds' heads are theirs; a fresh one may wait for its head.
		if owner, _, _ := strings.Cut(name, "-p"); !used[name] && strings.HasPrefix(owner, prefix) && time.Since(p.CreationTimestamp.Time) > time.Hour {
			_ = k.kube.Delete(ctx, &p)
		}
	}
	return out, nil
}

func (k keeper) list(ctx context.Context, kind string) (map[string]corev1.Secret, error) {
	out, next := map[string]corev1.Secret{}, ""
	for {
		var page corev1.SecretList
		call, stop := context.WithTimeout(ctx, CallTimeout)
		err := k.kube.List(call, &page, client.InNamespace(k.namespace), client.MatchingLabels{keepLabel: kind}, client.Limit(100), client.Continue(next))
		stop()
		if err != nil {
			return nil, k.explain(err, "")
		}
		for _, s := range page.Items {
			out[s.Name] = s
		}
		if next = page.Continue; next == "" {
			return out, nil
		}
	}
}

// drop removes a head and its parts; what is gone is gone.
func (k keeper) drop(ctx context.Context, name string, was kept) error {
	ctx, stop := context.WithTimeout(ctx, CallTimeout)
	defer stop()
	s := k.secret("", name, nil)
	var options []client.DeleteOption
	if was.version != "" {
		options = append(options, client.Preconditions{ResourceVersion: &was.version})
	}
	if err := k.kube.Delete(ctx, s, options...); err != nil && !apierrors.IsNotFound(err) {
		return k.explain(err, name)
	}
	for _, part := range was.names {
		_ = k.kube.Delete(ctx, k.secret("part", part, nil))
	}
	return nil
}
