package action

// Lock locks a file as a run does.
var Lock = lock
