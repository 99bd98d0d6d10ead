package app

// ClusterURL is where a name of the primary is asked.
var ClusterURL = clusterURL
