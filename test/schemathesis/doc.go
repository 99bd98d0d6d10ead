// Package schemathesis throws random requests at the built binary and holds
// every answer against the OpenAPI documents that the server publishes. The
// requests are made up by Schemathesis, a property-based tester of APIs.
//
// It owns the small fleet that is asked and who asks. It must not know the rooms
// inside, nor what any operation means: the documents say it.
//
// DROVER_TEST_SCHEMATHESIS is the path of the command, otherwise that of the cache
// is used (test/with-schemathesis.sh puts it there). DROVER_TEST_NO_SCHEMATHESIS=1
// says that there is none, and that this was reported. DROVER_TEST_SEED repeats a
// run of the random seed, which every failure prints. With CI=true it is always the
// same one: what is found by chance is to be mended, but not by who changed a comma.
package schemathesis
