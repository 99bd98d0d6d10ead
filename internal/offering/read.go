package offering

import "github.com/droverhq/drover/internal/document"

// Read is document.Read for checks that know no files.
func Read(source string, data []byte, into any, reason string, check func(Mistaken)) error {
	return document.Read(source, data, document.Form{Kind: reason}, into, func(f *document.File) { check(f.Inside) })
}
