// Package postgres gives tests a real PostgreSQL server.
//
// It owns finding the binaries, running servers on loopback as an unprivileged
// user, and fresh databases. It must not know what is kept in them.
//
// DROVER_TEST_POSTGRES names a running server (the URL of an admin database)
// to use for Database instead of starting one per test process.
// DROVER_TEST_NO_POSTGRES=1 says that there is none, and that this was reported.
package postgres
