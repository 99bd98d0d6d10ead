package template

// Addition is a version that is to be kept: from a repository, or of files that
// came along.
type Addition struct {
	Repository, Revision, Path string
	Files                      map[string][]byte
	Origin                     string // where the files come from, for people
	// What opens the repository; it is used once and not kept.
	Username, Password string
	SSHKey, KnownHosts []byte
	// DryRun only says what is wrong with it.
	DryRun bool
}
