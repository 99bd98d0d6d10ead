// Package audit answers an auditor: who did what, when, from where and with which
// outcome, and what proves that nobody has edited it since.
//
// It owns the schedule by which the log is sealed, the keys that it is signed
// with, the rule of retention, and the view of the log that an auditor reads. What
// a seal is, and what verification means, is package ledger's; it must not know
// SQL or HTTP, nor what the objects in the log are about.
package audit
