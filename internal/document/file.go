package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	defaultBytes = 128 << 10
	maxDepth     = 48
)

// Form is what files of a kind may be.
type Form struct {
	// Kind is what a file holds one of ("offering"), and the reason of its
	// faults. Without it a file holds any number of documents.
	Kind     string
	Bytes    int // the most that a file may have; default 128 KiB
	Mistakes int // the most that are told; default: all
	// NoPaths: mistakes are told by their places alone.
	NoPaths bool
	// Words for what does not fit the type that it is decoded into; default:
	// Misfit.String.
	Words func(Misfit) string
}

func (f Form) bytes() int {
	if f.Bytes > 0 {
		return f.Bytes
	}
	return defaultBytes
}

// File is a file that was read, with the places of everything in it and the
// mistakes that were found until now. It is not safe for concurrent use.
type File struct {
	// Documents of the file: of a form with a kind at most one. What could not
	// be read is not there.
	Documents []*Node

	form     Form
	source   string
	lines    []string
	mistakes Mistakes
	wrong    map[string]bool // paths that have a mistake already
}

// Root is the first document. It is empty if there is none.
func (f *File) Root() *Node {
	if len(f.Documents) == 0 {
		return &Node{At: start}
	}
	return f.Documents[0]
}

// Open turns a file of YAML or JSON into nodes. What would let a short file grow
// without bound (anchors, aliases, depth) is a mistake, as is a key that is there
// twice.
func Open(source string, data []byte, form Form) *File {
	f := &File{form: form, source: source}
	switch most := form.bytes(); {
	case len(data) > most && most >= 1<<20:
		f.Report(start, nil, fmt.Sprintf("the file has more than %d MiB", most>>20))
	case len(data) > most:
		f.Report(start, nil, fmt.Sprintf("the file has more than %d KiB", most>>10))
	case !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0:
		f.Report(start, nil, "the file is not UTF-8 text")
	default:
		f.lines = strings.Split(string(data), "\n")
		if json.Valid(data) {
			f.readJSON(data)
		} else {
			f.readYAML(data)
		}
	}
	return f
}

// Read fills a value from a file of one document and lets check find what its
// type cannot say. A file that cannot be read is not checked. The error is that
// of File.Err.
func Read(source string, data []byte, form Form, into any, check func(*File)) error {
	f := Open(source, data, form)
	if f.Sound() {
		f.Decode(f.Root(), into, nil)
		check(f)
	}
	return f.Err()
}
