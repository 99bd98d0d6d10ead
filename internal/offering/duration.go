package offering

import (
	"time"

	"github.com/droverhq/drover/internal/document"
)

// Duration is a time.Duration that is written "48h" in JSON and YAML.
type Duration = document.Duration

// hookTimeout is how long a hook may take that does not say.
const hookTimeout = Duration(5 * time.Second)
