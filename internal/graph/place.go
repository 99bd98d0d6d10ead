package graph

import (
	"cmp"
	"slices"
)

// sweeps is how often the waves are put in order again, each time by the other
// neighbours: more change little.
const sweeps = 4

// Placed lists the waves for a drawing: within each the names stand near those
// that they need and that need them, so that few lines cross.
func (g *Graph) Placed() [][]string {
	waves := g.Waves()
	at := make(map[string]float64, len(g.names))
	stand := func(wave []string) {
		for i, name := range wave {
			// The middle of a short wave is beside that of a long one.
			at[name] = float64(i) - float64(len(wave)-1)/2
		}
	}
	for _, wave := range waves {
		stand(wave)
	}
	needed := make(map[string][]string, len(g.names))
	for _, name := range g.names {
		for _, need := range g.needs[name] {
			needed[need] = append(needed[need], name)
		}
	}
	for sweep := range sweeps {
		beside := g.needs
		if sweep%2 == 1 {
			beside = needed
		}
		for i := range waves {
			wave := waves[i]
			if sweep%2 == 1 {
				wave = waves[len(waves)-1-i]
			}
			middle := make(map[string]float64, len(wave))
			for _, name := range wave {
				middle[name] = at[name]
				if near := beside[name]; len(near) > 0 {
					sum := 0.0
					for _, other := range near {
						sum += at[other]
					}
					middle[name] = sum / float64(len(near))
				}
			}
			slices.SortStableFunc(wave, func(a, b string) int { return cmp.Compare(middle[a], middle[b]) })
			stand(wave)
		}
	}
	return waves
}
