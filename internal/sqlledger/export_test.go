package sqlledger

import "time"

// Questions are those of operators, as the database is asked them, with their arguments.
func (l *Ledger) Questions() map[string][]any {
	var worst, all binder
	worstSQL := failing(&worst, 5, 20)
	allSQL := backlog(l.dialect.now(&all, l.config.Now))
	return map[string][]any{"failing": append([]any{worstSQL}, worst.args...), "backlog": append([]any{allSQL}, all.args...)}
}

// Quiet is a while without any transaction.
func (l *Ledger) Quiet() { l.engine.(*lite).recent.asked = time.Time{} }
