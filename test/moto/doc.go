// Package moto gives tests an emulator of Amazon's services.
//
// It owns finding and running moto_server on loopback. It must not know which
// services are used.
//
// DROVER_TEST_MOTO is the path of moto_server, otherwise that of the cache is used
// (test/with-dns.sh puts it there). DROVER_TEST_NO_MOTO=1 says that there is none,
// and that this was reported.
package moto
