package chart_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const containerfile = "../../deploy/Containerfile"

// instruction of a container file, with the lines that it goes on over.
type instruction struct {
	verb  string
	flags map[string]string
	rest  string
}

// stage of a container file: what is between one FROM and the next.
type stage struct {
	base, name string
	does       []instruction
}

// parse reads as much of the format as Drover's file has, and says what it cannot read.
func parse(text string) (stages []stage, wrong []string) {
	verbs := strings.Fields("FROM ARG ENV WORKDIR COPY ADD RUN USER ENTRYPOINT CMD LABEL EXPOSE VOLUME STOPSIGNAL HEALTHCHECK SHELL")
	whole := ""
	for _, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if part, more := strings.CutSuffix(line, `\`); more {
			whole += part
			continue
		}
		words := strings.Fields(whole + line)
		whole = ""
		i := instruction{verb: words[0], flags: map[string]string{}}
		words = words[1:]
		for len(words) > 0 && strings.HasPrefix(words[0], "--") {
			name, value, _ := strings.Cut(words[0][2:], "=")
			i.flags[name], words = value, words[1:]
		}
		i.rest = strings.Join(words, " ")
		switch {
		case !slices.Contains(verbs, i.verb):
			wrong = append(wrong, fmt.Sprintf("there is no instruction %s", i.verb))
		case i.verb == "FROM":
			s := stage{}
			if len(words) > 0 {
				s.base = words[0]
			}
			if len(words) == 3 && words[1] == "AS" {
				s.name = words[2]
			} else if len(words) != 1 {
				wrong = append(wrong, "FROM "+i.rest)
			}
			stages = append(stages, s)
		case len(stages) == 0:
			wrong = append(wrong, i.verb+" before the first FROM")
		default:
			stages[len(stages)-1].does = append(stages[len(stages)-1].does, i)
		}
	}
	if whole != "" || len(stages) == 0 {
		wrong = append(wrong, "it ends too early")
	}
	return stages, wrong
}

var variable = regexp.MustCompile(`\$\{(\w+)\}`)

// lint is what an engine, or whoever runs the image, would not like.
func lint(text string) []string {
	stages, wrong := parse(text)
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	var names []string
	versioned := false
	for n, s := range stages {
		known, used := map[string]bool{}, map[string]bool{}
		last := map[string]string{}
		for _, i := range s.does {
			last[i.verb] = i.rest
			for _, v := range variable.FindAllStringSubmatch(i.rest, -1) {
				used[v[1]] = true
				if !known[v[1]] {
					bad("%s uses %s, which its stage does not declare", i.verb, v[1])
				}
			}
			switch i.verb {
			case "ADD":
				bad("ADD %s: it unpacks and fetches; COPY does not", i.rest)
			case "ARG", "ENV":
				name, _, _ := strings.Cut(i.rest, "=")
				known[name] = true
			case "COPY":
				if from, ok := i.flags["from"]; ok && !slices.Contains(names, from) {
					bad("COPY --from=%s names no stage before it", from)
				}
				if len(strings.Fields(i.rest)) < 2 {
					bad("COPY %s says not where to", i.rest)
				}
			}
		}
		versioned = versioned || known["VERSION"] && used["VERSION"]
		if s.name != "" {
			names = append(names, s.name)
		}
		if n < len(stages)-1 {
			continue
		}
		if !regexp.MustCompile(`^[1-9]\d*:[1-9]\d*$`).MatchString(last["USER"]) {
			bad("USER %q: Kubernetes sees that it is not root by its numbers alone", last["USER"])
		}
		var command []string
		if err := json.Unmarshal([]byte(last["ENTRYPOINT"]), &command); err != nil || len(command) == 0 {
			bad("ENTRYPOINT %q: without JSON it needs a shell, which is not there", last["ENTRYPOINT"])
		}
	}
	if !versioned {
		bad("no stage declares ARG VERSION and uses it")
	}
	return wrong
}

func TestTheContainerFile(t *testing.T) {
	text, err := os.ReadFile(containerfile)
	if err != nil {
		t.Fatal(err)
	}
	if wrong := lint(string(text)); len(wrong) > 0 {
		t.Error(strings.Join(wrong, "\n"))
	}
	for _, tc := range []struct{ reason, old, changed, says string }{
		{"a word that is none", "WORKDIR /src", "WORKDIRS /src", "no instruction WORKDIRS"},
		{"a stage that is none", "COPY --from=build /out/ /", "COPY --from=builder /out/ /", "builder names no stage"},
		{"the version is not asked for", "ARG VERSION=dev\n", "", "VERSION, which its stage does not declare"},
		{"the version is not told", "main.version=${VERSION}", "main.version=1", "no stage declares ARG VERSION and uses it"},
		{"something is unpacked", "COPY . .", "ADD . .", "ADD . ."},
		{"a user by name", "USER 65532:65532", "USER nobody", `USER "nobody"`},
		{"root", "USER 65532:65532", "USER 0:0", `USER "0:0"`},
		{"a shell", `ENTRYPOINT ["/drover"]`, "ENTRYPOINT /drover", "needs a shell"},
		{"a line that goes nowhere", `ENTRYPOINT ["/drover"]`, `ENTRYPOINT ["/drover"] \`, "ends too early"},
		{"nowhere to copy to", "COPY go.mod go.sum ./", "COPY go.mod", "says not where to"},
	} {
		was := strings.Count(string(text), tc.old)
		if wrong := lint(strings.Replace(string(text), tc.old, tc.changed, 1)); was == 0 || !strings.Contains(strings.Join(wrong, "\n"), tc.says) {
			t.Errorf("%s: it says %q, want %q (%d places)", tc.reason, wrong, tc.says, was)
		}
	}
}
