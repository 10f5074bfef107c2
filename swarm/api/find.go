package api

import "coracle.dev/swarm/refusal"

// find looks for an object by its id, then by its name, then by the beginning of its id.
func find[T any](noun, name string, get func() (*T, error), list func(names, prefixes []string) ([]*T, error)) (*T, error) {
	if found, err := get(); err == nil {
		return found, nil
	}
	for _, asked := range [][2][]string{{{name}, nil}, {nil, {name}}} {
		all, err := list(asked[0], asked[1])
		switch {
		case err != nil:
			return nil, err
		case len(all) == 1:
			return all[0], nil
		case len(all) > 1:
			return nil, refusal.Invalid("%s %s is ambiguous (%d matches found)", noun, name, len(all))
		}
	}
	return nil, refusal.Missing("%s %s not found", noun, name)
}
