package document

import (
	"encoding/json"
	"fmt"
	"time"
)

// Duration is a time.Duration that is written "48h" in JSON and YAML.
type Duration time.Duration

func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

func (d *Duration) UnmarshalJSON(data []byte) error {
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("a duration is text such as \"48h\"")
	}
	v, err := time.ParseDuration(s)
	*d = Duration(v)
	return err
}
