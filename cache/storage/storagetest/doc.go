// Package storagetest holds what every storage.Element must pass, and a small
// WebDAV server to try clients against. It is for tests only.
package storagetest
