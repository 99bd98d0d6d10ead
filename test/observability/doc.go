// Package observability holds what is in deploy/observability against promtool and
// against the metrics that a server really has.
//
// It owns no rule and no dashboard. It must not know what they are for.
//
// DROVER_TEST_PROMTOOL is the path of the command (test/with-promtool.sh brings it).
// DROVER_TEST_NO_PROMTOOL=1 says that there is none, and that this was reported.
package observability
