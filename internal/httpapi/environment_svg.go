package httpapi

import (
	"bytes"
	"fmt"
	"html"
	"unicode/utf8"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/graph"
)

// Sizes of the drawing, in pixels.
const (
	boxWidth, boxHeight = 190, 46
	gapAcross, gapDown  = 70, 18
	drawingEdge         = 20
	boxLetters          = 24
)

// drawingStyle follows the reader's choice of light or dark. Phases differ in
// the line around them too: not everybody sees colours.
const drawingStyle = `text{font:12px system-ui,sans-serif;fill:#1f2933}.s{font-size:10px;fill:#52606d}rect{fill:#fff;stroke:#9aa5b1;stroke-width:1.5;rx:6}path{fill:none;stroke:#9aa5b1;stroke-width:1.2}` +
	`.ready rect{stroke:#2f855a}.applying rect{stroke:#2b6cb0;stroke-width:3}.failed rect{stroke:#c53030;stroke-width:3;stroke-dasharray:6 3}.destroying rect{stroke:#975a16;stroke-dasharray:2 3}` +
	`.pending rect{stroke-dasharray:4 4}.external rect{fill:#f0f4f8;stroke-dasharray:1 3}.drifted rect{fill:#fffbea}` +
	`@media(prefers-color-scheme:dark){text{fill:#e4e7eb}.s{fill:#9aa5b1}rect{fill:#1f2933}.external rect{fill:#323f4b}.drifted rect{fill:#513c06}}`

// drawGraph draws an environment from left to right, each resource right of what
// it needs. The drawing runs nothing and loads nothing.
func drawGraph(g v1.Graph) ([]byte, error) {
	nodes := make([]graph.Node, len(g.Nodes))
	by := make(map[string]v1.GraphNode, len(g.Nodes))
	for i, n := range g.Nodes {
		nodes[i] = graph.Node{Name: n.Address, Needs: n.Needs}
		by[n.Address] = n
	}
	order, err := graph.New(nodes)
	if err != nil {
		return nil, err
	}
	waves := order.Placed()
	tallest := 1
	for _, wave := range waves {
		tallest = max(tallest, len(wave))
	}
	width := 2*drawingEdge + len(waves)*(boxWidth+gapAcross) - gapAcross
	height := 2*drawingEdge + tallest*(boxHeight+gapDown) - gapDown
	type corner struct{ x, y int }
	at := make(map[string]corner, len(g.Nodes))
	for w, wave := range waves {
		top := drawingEdge + (tallest-len(wave))*(boxHeight+gapDown)/2
		for i, name := range wave {
			at[name] = corner{drawingEdge + w*(boxWidth+gapAcross), top + i*(boxHeight+gapDown)}
		}
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-label="%s"><style>%s</style>`,
		max(width, 2*drawingEdge), height, max(width, 2*drawingEdge), height, html.EscapeString(drawable(g.Environment+" is "+g.Phase)), drawingStyle)
	for _, n := range g.Nodes {
		to := at[n.Address]
		for _, need := range n.Needs {
			from := at[need]
			x, y := from.x+boxWidth, from.y+boxHeight/2
			bend := max((to.x-x)/2, gapAcross/2)
			fmt.Fprintf(&out, `<path d="M%d %dC%d %d %d %d %d %d"/>`, x, y, x+bend, y, to.x-bend, to.y+boxHeight/2, to.x, to.y+boxHeight/2)
		}
	}
	for _, wave := range waves {
		for _, name := range wave {
			n, c := by[name], at[name]
			class, below := n.Phase, n.Executor+" · "+n.Phase
			if n.External {
				class, below = "external", "outside"
			}
			if n.Drifted {
				class, below = class+" drifted", below+", drifted"
			}
			fmt.Fprintf(&out, `<g class="%s"><title>%s</title><rect x="%d" y="%d" width="%d" height="%d"/><text x="%d" y="%d">%s</text><text class="s" x="%d" y="%d">%s</text></g>`,
				html.EscapeString(drawable(class)), html.EscapeString(drawable(n.Address+": "+below+" "+n.Message)), c.x, c.y, boxWidth, boxHeight,
				c.x+10, c.y+20, html.EscapeString(drawable(shortened(n.Address))), c.x+10, c.y+36, html.EscapeString(drawable(shortened(below))))
		}
	}
	out.WriteString("</svg>\n")
	return out.Bytes(), nil
}

// shortened fits a box.
func shortened(s string) string {
	if utf8.RuneCountInString(s) <= boxLetters {
		return s
	}
	return string([]rune(s)[:boxLetters-1]) + "…"
}

// drawable leaves out what no XML may hold.
func drawable(s string) string {
	return string(bytes.Map(func(r rune) rune {
		if r < ' ' || r == utf8.RuneError || r == 0xfffe || r == 0xffff {
			return -1
		}
		return r
	}, []byte(s)))
}
