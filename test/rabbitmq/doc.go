// Package rabbitmq gives tests a real RabbitMQ broker.
//
// It owns finding the programs, running nodes of one on loopback with their own
// port mapper, cookie and certificates, and the hands of their operator: alarms,
// deleted queues, a node that is killed. It must not know what is sent.
//
// DROVER_TEST_RABBITMQ names a running broker (amqp://user:password@host:port) to
// use for Shared instead of starting one per test process.
// DROVER_TEST_NO_RABBITMQ=1 says that there is none, and that this was reported.
package rabbitmq
