package sqlledger

import (
	"time"

	"github.com/droverhq/drover/internal/ledger"
)

// Questions are those of operators, as the database is asked them, with their arguments.
func (l *Ledger) Questions() map[string][]any {
	var worst, all binder
	worstSQL := failing(&worst, 5, 20)
	allSQL := backlog(l.dialect.now(&all, l.config.Now))
	return map[string][]any{"failing": append([]any{worstSQL}, worst.args...), "backlog": append([]any{allSQL}, all.args...)}
}

// Quiet is a while without any transaction.
func (l *Ledger) Quiet() { l.engine.(*lite).recent.asked = time.Time{} }

// ReadState is how states are read that are written as ours are, ParseState how all are.
func (l *Ledger) ReadState(state []byte) (ledger.Object, bool)   { return l.readState(state) }
func (l *Ledger) ParseState(state []byte) (ledger.Object, error) { return l.parseState(state) }

// EncodeState is how they are written.
func EncodeState(o ledger.Object) []byte { return []byte(encodeState(&o)) }
