package api

import (
	"encoding/json"
	"slices"
	"sort"
	"strings"

	"coracle.dev/swarm/refusal"
)

// filters are the values of the parameter of that name, by key.
type filters map[string][]string

// filters reads the parameter, in the form {"key":["value"]}, or {"key":{"value":true}} as older clients send it.
func (c *call) filters(known ...string) (filters, error) {
	text := c.query.Get("filters")
	made := filters{}
	if text == "" {
		return made, nil
	}
	var lists map[string][]string
	if json.Unmarshal([]byte(text), &lists) == nil {
		made = lists
	} else {
		var sets map[string]map[string]bool
		if err := json.Unmarshal([]byte(text), &sets); err != nil {
			return nil, refusal.Invalid("invalid filters: %s", err)
		}
		for key, set := range sets {
			for value := range set {
				made[key] = append(made[key], value)
			}
			sort.Strings(made[key])
		}
	}
	for key := range made {
		if !slices.Contains(known, key) {
			return nil, refusal.Invalid("invalid filter '%s'", key)
		}
	}
	return made, nil
}

// pairs reads values in the form key=value, or key for an empty value.
func pairs(values []string) map[string]string {
	if len(values) == 0 {
		return nil
	}
	made := map[string]string{}
	for _, one := range values {
		key, value, _ := strings.Cut(one, "=")
		made[key] = value
	}
	return made
}

// words reads values that are words of an enumeration of the control API.
func words[T ~int32](values []string, all map[string]int32, key string) ([]T, error) {
	var made []T
	for _, word := range values {
		number, ok := all[strings.ToUpper(word)]
		switch {
		case ok:
			made = append(made, T(number))
		case word != "":
			return nil, refusal.Invalid("Invalid %s filter: '%s'", key, word)
		}
	}
	return made, nil
}
