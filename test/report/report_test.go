package main

import (
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	const stream = `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"quiet\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestB/sub","Output":"loud\n"}
{"Action":"fail","Package":"p","Test":"TestB/sub"}
{"Action":"fail","Package":"p","Test":"TestB"}
{"Action":"skip","Package":"p","Test":"TestC"}
{"Action":"skip","Package":"p","Test":"TestE/sub"}
{"Action":"output","Package":"p","Test":"TestD","Output":"panic: gone\n"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}
{"Action":"fail","Package":"p"}
{"Action":"build-output","ImportPath":"q","Output":"q.go:1: broken\n"}
{"Action":"fail","Package":"q"}
{"Action":"output","Package":"r","Output":"PASS\n"}
{"Action":"output","Package":"r","Output":"ok  \tr\t0.1s\n"}
{"Action":"pass","Package":"r"}
go: something else
`
	var out strings.Builder
	got, err := read(strings.NewReader(stream), &out)
	if err != nil {
		t.Fatal(err)
	}
	if got.passed != 1 || got.failed != 1 || got.skipped != 2 || got.packages != 3 || got.broken != 2 {
		t.Errorf("counted %+v", got)
	}
	want := "loud\nFAIL\tp\t0.1s\nq.go:1: broken\nok  \tr\t0.1s\ngo: something else\n--- UNFINISHED: p TestD\npanic: gone\n"
	if out.String() != want {
		t.Errorf("got  %q\nwant %q", out.String(), want)
	}
	away := missing(func(name string) string { return map[string]string{"DROVER_TEST_NO_POSTGRES": "1"}[name] })
	if len(away) != 1 {
		t.Errorf("missing are %q", away)
	}
	if s := got.summary("test", 0, away); !strings.Contains(s, "failed: p TestB\n") || !strings.Contains(s, "apt-get install -y postgresql") ||
		!strings.HasSuffix(s, "test: 1 passed, 1 failed, 2 skipped in 3 packages (2 broken), 0 s\n") {
		t.Errorf("summary: %q", s)
	}
}
