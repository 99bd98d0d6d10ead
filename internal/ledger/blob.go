package ledger

import (
	"slices"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/fault"
)

// Sweep says which blobs may go.
type Sweep struct {
	// Young is how long after it was put, or was named by an object that had not
	// named it before, a blob is left alone whoever names it.
	Young time.Duration
	// Keep is how long a blob is there after the last object that named it stopped to,
	// so that the past within reach is whole.
	Keep time.Duration
}

// Swept is what a sweep found.
type Swept struct {
	Blobs  int // that were looked at: those that are not young
	Named  int // of them, those that objects name
	Erased int
}

const digestPrefix, digestDigits = "sha256:", 64

// Named lists the digests in an object's documents, sorted: every run of exactly 64
// hexadecimal digits is taken for one, whether it says so or not. An object that is
// gone names none.
func Named(o *Object) []string {
	if !o.Deleted.IsZero() {
		return nil
	}
	var out []string
	for _, raw := range [][]byte{o.Spec, o.Status, o.View} {
		out = appendDigests(out, raw)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func appendDigests(out []string, raw []byte) []string {
	for i := 0; i+digestDigits <= len(raw); {
		end := i + digestDigits - 1
		for end >= i && isHex(raw[end]) {
			end--
		}
		if end >= i { // no run begins before what is behind this byte
			i = end + 1
			continue
		}
		end = i + digestDigits
		for end < len(raw) && isHex(raw[end]) {
			end++
		}
		if end-i == digestDigits {
			out = append(out, digestPrefix+string(raw[i:end]))
		}
		i = end + 1
	}
	return out
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' }

// Naming lists, sorted, the digests that sets would have objects name which do not
// name them as they are. What of it the store has erased belongs into State.Lost; of
// the rest it remembers that they were named now, in the same commit.
func Naming(state State, sets []Set) []string {
	var out []string
	for _, s := range sets {
		for _, p := range s.Puts {
			before := state.Objects[p.Object.Ref]
			out = append(out, news(&before, &p.Object)...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// news lists what an object names that it did not before.
func news(before, after *Object) []string {
	named := Named(after)
	if len(named) == 0 {
		return nil
	}
	had := Named(before)
	return slices.DeleteFunc(named, func(d string) bool {
		_, found := slices.BinarySearch(had, d)
		return found
	})
}

// checkBlobs refuses to name what was erased.
func (b *batch) checkBlobs(s *Set) error {
	if len(b.state.Lost) == 0 {
		return nil
	}
	for i := range s.Puts {
		o := &s.Puts[i].Object
		before := b.object(o.Ref)
		if before == nil {
			before = &Object{}
		}
		for _, digest := range news(before, o) {
			if b.state.Lost[digest] {
				return fault.New(fault.Conflict, "%s names %s, which is kept no longer: put it again",
					o.Ref, strings.TrimPrefix(digest, digestPrefix)[:12]).Because("blob")
			}
		}
	}
	return nil
}
