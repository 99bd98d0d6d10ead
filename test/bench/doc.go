// Package bench measures the real binary on both databases and prints the table
// of docs/benchmarks.md: `make bench`. It asserts no times: machines differ.
package bench
