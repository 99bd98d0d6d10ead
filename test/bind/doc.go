// Package bind gives tests a real BIND name server.
//
// It owns finding named, running it on loopback with zones that one TSIG key may
// update and transfer, and looking into those zones. It must not know what is
// kept in them.
//
// DROVER_TEST_NO_BIND=1 says that there is none, and that this was reported.
package bind
