package app

// What bootstrap reads of strangers.
var (
	ParseIndex       = parseIndex
	ParseEnvironment = parseEnvironment
	GitHubNames      = gitHubNames
	TemplateDirs     = templateDirs
)
