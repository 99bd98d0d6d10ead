package cli

// Likely are the causes of a failure to reach a server.
var Likely = likely
