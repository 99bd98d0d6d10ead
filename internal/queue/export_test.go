package queue

// Spots counts the spots of all lanes, with those that were left.
func Spots[K comparable](f *Fair[K]) (n int) {
	for _, l := range f.lanes {
		for _, of := range l.ranks {
			n += of.len()
		}
	}
	return n
}
