// Package document owns how files of YAML or JSON become values in force: they
// are read with the place of everything in them and with all mistakes at once,
// watched on disk, and followed in the ledger, where what they said is kept.
//
// It knows no kind of document: what the fields mean, and what is done with
// them, is said by whoever reads.
package document
