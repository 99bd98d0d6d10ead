package v1

import "time"

// AuditRecord is one thing that was done, or was tried: GET /api/v1/audit.
type AuditRecord struct {
	Seq     int64     `json:"seq" doc:"Of the change in the log that tells it"`
	At      time.Time `json:"at"`
	Actor   string    `json:"actor" doc:"Who"`
	From    string    `json:"from,omitempty" doc:"From where: the address of the caller, bus, or nothing for what Drover did by itself"`
	Verb    string    `json:"verb" doc:"What: the verb of the change, or call"`
	Kind    string    `json:"kind,omitempty"`
	ID      string    `json:"id,omitempty"`
	Name    string    `json:"name,omitempty"`
	Org     string    `json:"org,omitempty"`
	Version int64     `json:"version,omitempty" doc:"Of the object, after it"`
	Outcome string    `json:"outcome" doc:"done, refused, hidden (refused without saying so), failed, or started: how it ended is not known"`
	Cause   string    `json:"cause,omitempty"`
	Request string    `json:"request,omitempty" doc:"Id of the request, as in the header X-Request-ID and in the server's log"`
	Call    string    `json:"call,omitempty" doc:"Method and path, of a call that is on record by itself"`
	Status  int       `json:"status,omitempty" doc:"Of HTTP, likewise"`
	Erased  bool      `json:"erased,omitempty" doc:"What was changed was erased since"`
}

// AuditRecords is a piece of them.
type AuditRecords struct {
	Items   []AuditRecord `json:"items"`
	Next    int64         `json:"next,omitempty" doc:"What to ask for the next piece with: before it, or with oldest after it. Missing: that was all"`
	History time.Time     `json:"history,omitzero" doc:"Where the log was truncated: it is whole from then on"`
}

// SealKey is the public half of a key that the log is signed with.
type SealKey struct {
	ID        string    `json:"id"`
	Public    []byte    `json:"public" doc:"Of Ed25519"`
	Since     time.Time `json:"since"`
	By        string    `json:"by,omitempty" doc:"Id of the key that vouches for it: the one before, its own for the first"`
	Signature []byte    `json:"signature,omitempty"`
}

// SealedHead is the end of the chain of sealed blocks at one time.
type SealedHead struct {
	Block     int64     `json:"block"`
	Seq       int64     `json:"seq" doc:"The last change before it"`
	Epoch     int64     `json:"epoch"`
	At        time.Time `json:"at"`
	Hash      string    `json:"hash"`
	Key       string    `json:"key"`
	Signature []byte    `json:"signature"`
}

// Heads is what is kept elsewhere, to tell later whether the log is still the one
// that it was: GET /api/v1/ledger/heads.
type Heads struct {
	Ledger string       `json:"ledger"`
	Keys   []SealKey    `json:"keys"`
	Heads  []SealedHead `json:"heads" doc:"The newest first"`
	Text   string       `json:"text,omitempty" doc:"All of it as lines to print"`
}

// VerifyRequest has the ledger verified: POST /api/v1/ledger/verify.
type VerifyRequest struct {
	Heads string `json:"heads,omitempty" doc:"Heads that were kept elsewhere, as lines or as JSON" maxLength:"1000000"`
}

// Verification is what came of it.
type Verification struct {
	Ledger    string      `json:"ledger"`
	Blocks    int64       `json:"blocks"`
	Changes   int64       `json:"changes" doc:"That are sealed"`
	Erased    int64       `json:"erased" doc:"Of them, without their content"`
	Unsealed  int64       `json:"unsealed" doc:"Newer ones, which nothing proves yet"`
	Objects   int64       `json:"objects" doc:"That are what the log says"`
	Unknown   int64       `json:"unknown" doc:"Objects of kinds that this program does not know"`
	Heads     int         `json:"heads" doc:"That were kept elsewhere, and are those of this ledger"`
	History   time.Time   `json:"history,omitzero" doc:"Where the log was truncated: it is whole from then on"`
	Truncated int64       `json:"truncated,omitempty" doc:"Up to this change only what each object was is there"`
	Leftover  int64       `json:"leftover,omitempty" doc:"Changes that truncation is yet to drop, and that nothing proves any more"`
	Erasures  []Erasure   `json:"erasures,omitempty" doc:"The first 1,000 of those without their content"`
	Last      *SealedHead `json:"last,omitempty"`
	Flaw      *Flaw       `json:"flaw,omitempty" doc:"Missing: everything holds"`
}

// EraseChange takes the content of a change out of the log: POST
// /api/v1/ledger/changes/<seq>/erase, operators only.
type EraseChange struct {
	Reason string `json:"reason" minLength:"1" maxLength:"200" doc:"Why; it stays in the audit"`
}

// Erasure is a change without its content.
type Erasure struct {
	Seq int64  `json:"seq"`
	Of  string `json:"of" doc:"kind/id of the object"`
}

// Flaw is the first place where a ledger is not what was written.
type Flaw struct {
	Kind  string `json:"kind" enum:"content,missing,extra,chain,signature,key,head,checkpoint,object"`
	Block int64  `json:"block,omitempty"`
	Seq   int64  `json:"seq,omitempty"`
	Of    string `json:"of,omitempty" doc:"kind/id of the object"`
	Text  string `json:"text"`
}

// VerifyProgress says how far a verification is.
type VerifyProgress struct {
	Changes int64 `json:"changes"`
	Of      int64 `json:"of"`
}
