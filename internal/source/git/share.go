package git

import (
	"sync/atomic"

	"github.com/droverhq/drover/internal/fault"
)

// Bounds of what large repositories may cost this process. What is free is every
// reader's: nobody's large one keeps a small one out.
const (
	freeBytes   = 4 << 20   // in memory, of each that is being read
	mostHeld    = 256 << 20 // in memory, beyond what is free, of all
	mostReaders = 4         // that are beyond what is free at the same time: unpacking has its price, too
)

// pool is what readers of large repositories share.
type pool struct{ bytes, readers atomic.Int64 }

var held pool

// share is what one reading has of the pool. One goroutine uses it.
type share struct {
	of   *pool
	used int64
	had  int64 // of the common part
}

// take asks for more. Where there is none nobody waits for it: whoever sends slowly
// would keep the others out.
func (s *share) take(n int64) error {
	s.used += n
	more := max(0, s.used-freeBytes) - s.had
	if more <= 0 {
		return nil
	}
	if s.had == 0 && s.of.readers.Add(1) > mostReaders {
		s.of.readers.Add(-1)
		return busy()
	}
	if s.of.bytes.Add(more) > mostHeld {
		s.of.bytes.Add(-more)
		if s.had == 0 {
			s.of.readers.Add(-1)
		}
		return busy()
	}
	s.had += more
	return nil
}

func busy() error {
	return fault.New(fault.Unavailable, "many large repositories are being read at this moment: it is tried again").Because("busy")
}

// release gives all of it back.
func (s *share) release() {
	if s.had > 0 {
		s.of.readers.Add(-1)
	}
	s.of.bytes.Add(-s.had)
	s.had, s.used = 0, 0
}
