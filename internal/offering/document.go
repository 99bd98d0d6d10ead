package offering

import (
	"errors"
	"reflect"

	"github.com/droverhq/drover/internal/fault"
)

// Read fills a value from a document of YAML or JSON, as strictly as offerings
// are read, and lets check find what the types cannot say. The error is
// fault.Invalid with the reason and wraps Mistakes: all of them, each with its
// place.
func Read(source string, data []byte, into any, reason string, check func(Mistaken)) error {
	f := read(source, data)
	if len(f.mistakes) == 0 {
		f.decode(f.root, reflect.ValueOf(into).Elem(), nil)
		check(func(path []any, offset int, message string) { f.inside(path, offset, message) })
	}
	err := f.mistakes.fault()
	var wrong *fault.Error
	if errors.As(err, &wrong) {
		return wrong.Because(reason)
	}
	return err
}
