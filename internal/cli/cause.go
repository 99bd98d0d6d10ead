package cli

import "strings"

// pushCause reads a cause that is a push: where it came from, to which branch or
// tag, the beginning of the commit, and who pushed; what was not told is empty.
func pushCause(rest string) (from, to, commit, who string) {
	head, who, _ := strings.Cut(rest, " by ")
	from, ref, _ := strings.Cut(head, "/")
	if at := strings.LastIndexByte(ref, '@'); at >= 0 {
		ref, commit = ref[:at], ref[at+1:]
	}
	to = strings.TrimPrefix(ref, "refs/heads/")
	if tag, ok := strings.CutPrefix(ref, "refs/tags/"); ok {
		to = "tag " + tag
	}
	return from, to, first12(commit), who
}

// pushed says a push in words: "push to main at 0a1b2c3d4e5f by ann (github)".
func pushed(rest string) string {
	from, to, commit, who := pushCause(rest)
	text := "push"
	for _, part := range []struct{ before, what, behind string }{{" to ", to, ""}, {" at ", commit, ""}, {" by ", who, ""}, {" (", from, ")"}} {
		if part.what != "" {
			text += part.before + part.what + part.behind
		}
	}
	return text
}

// briefCause is a cause as a column has it. Wide output has all of it.
func briefCause(cause string) string {
	kind, rest, _ := strings.Cut(cause, ":")
	switch kind {
	case "push":
		_, to, commit, who := pushCause(rest)
		text := strings.TrimSpace("push " + to)
		if commit != "" {
			text += "@" + commit[:min(len(commit), 7)]
		}
		if who != "" {
			text += " by " + who
		}
		return text
	case "resource": // home/kind/namespace/name
		parts := strings.Split(rest, "/")
		return kind + " " + strings.Join(parts[max(0, len(parts)-2):], "/")
	case "report": // cluster@number
		rest, _, _ = strings.Cut(rest, "@")
	case "change": // kind/id@version
		rest, _, _ = strings.Cut(rest, "/")
	case "request": // its id says nothing: the owner does
		return kind
	}
	return strings.TrimSpace(kind + " " + rest)
}
