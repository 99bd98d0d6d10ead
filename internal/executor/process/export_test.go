package process

// Is has another process be the server itself, until the function that is returned is called.
func Is(pid int) (end func()) {
	was := self
	self = func() int { return pid }
	return func() { self = was }
}
