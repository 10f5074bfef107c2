// Package image has rules about references of images.
package image

import "strings"

// IsContent tells whether a reference is an id or has a digest.
func IsContent(reference string) bool { return strings.Contains(reference, "sha256:") }

// WithTag adds the usual tag to a reference without one.
func WithTag(reference string) string {
	name := reference[strings.LastIndexByte(reference, '/')+1:]
	if strings.ContainsAny(name, ":@") {
		return reference
	}
	return reference + ":latest"
}
