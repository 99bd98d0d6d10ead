package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

func oneOf(words ...string) func(string) error {
	return func(text string) error {
		if slices.Contains(words, text) {
			return nil
		}
		return fmt.Errorf("want %s%s", strings.Join(words, ", "), didYouMean(text, words))
	}
}

func checkNumber(least float64) func(string) error {
	return func(text string) error {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || !(n >= least && n < 1e9) {
			return fmt.Errorf("want a number of at least %v", least)
		}
		return nil
	}
}

func checkShare(text string) error {
	if n, err := strconv.ParseFloat(text, 64); err != nil || !(n >= 0 && n <= 1) {
		return errors.New("want a share from 0 to 1, such as 0.01")
	}
	return nil
}

func checkInt(least, most int) func(string) error {
	return func(text string) error {
		if n, err := strconv.Atoi(text); err != nil || n < least || n > most {
			return fmt.Errorf("want a whole number from %d to %d", least, most)
		}
		return nil
	}
}

func checkDuration(least, most time.Duration) func(string) error {
	return func(text string) error {
		if d, err := time.ParseDuration(text); err != nil || d < least || d > most {
			return fmt.Errorf("want a duration from %v to %v, such as 30s", least, most)
		}
		return nil
	}
}
