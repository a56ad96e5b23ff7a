package task

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path"
	"strings"
)

// storageSchemes are the kinds of URLs that storage elements and copies of files
// have, and what each needs. A further one needs an element in cache/storage.
var storageSchemes = map[string]func(*url.URL) bool{
	"file":  isLocalPath,
	"http":  func(u *url.URL) bool { return u.Hostname() != "" },
	"https": func(u *url.URL) bool { return u.Hostname() != "" },
}

// OnThisMachine tells whether a URL leads to whoever reads it, by whatever spelling.
func OnThisMachine(u *url.URL) bool {
	ip, _ := netip.ParseAddr(u.Hostname()) // else it is the zero address, which is neither
	ip = ip.Unmap()
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || ip.IsLoopback() || ip.IsUnspecified()
}

func isLocalPath(u *url.URL) bool {
	return (u.Host == "" || u.Host == "localhost") && path.IsAbs(u.Path) && !strings.Contains(u.Path, "\x00") && u.RawQuery == ""
}

// ParseStorageURL reads the URL of a storage element or of a copy on one. Whoever
// takes such a URL asks here, so that what one accepts no other refuses.
func ParseStorageURL(text string) (*url.URL, error) {
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return nil, errors.New("the URL contains control characters")
	}
	parsed, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("the URL cannot be parsed") // which part cannot may be a password
	}
	complete, known := storageSchemes[parsed.Scheme]
	switch {
	case parsed.User != nil:
		return nil, errors.New("the URL holds a user name or password: give pilots access to the storage element instead")
	case parsed.Fragment != "":
		return nil, fmt.Errorf("URL %.200q has a fragment", text)
	case !known || !complete(parsed):
		return nil, fmt.Errorf("URL %.200q: write https://HOST/PATH, http://HOST/PATH or file:///PATH", text)
	}
	return parsed, nil
}
