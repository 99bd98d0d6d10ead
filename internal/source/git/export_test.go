package git

// ProbeTimeout is how long a repository is asked.
const ProbeTimeout = probeTimeout

// Hold takes a part of what large repositories may cost, as others do who read
// some.
func Hold(readers, bytes int64) (release func()) {
	held.readers.Add(readers)
	held.bytes.Add(bytes)
	return func() { held.readers.Add(-readers); held.bytes.Add(-bytes) }
}

// Held is how much of it is taken.
func Held() [2]int64 { return [2]int64{held.readers.Load(), held.bytes.Load()} }
