package peer

import (
	"net/url"
	"strings"
	"testing"
	"unicode"

	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/task"
)

// What is taken for a key is one that could have been asked for by us.
func FuzzParseTarget(f *testing.F) {
	digest := strings.Repeat("0a", 32)
	for _, seed := range []string{
		"/v1/files/b3:" + digest, "/v1/files/b3:" + digest + "/manifest", "/v1/files/b3:" + strings.ToUpper(digest),
		"/v1/files/lfn:vo:a%2Fb", "/v1/files/lfn:vo:a/b", "/v1/files/lfn:..%2F..%2Fetc%2Fpasswd", "/v1/files/lfn:a%00",
		"/v1/files/lfn:manifest", "/v1/files/lfn:a%2Fmanifest", "/v1/files/lfn:-a", "/v1/files/%6Cfn:a", "/v1/files//manifest",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		key, manifest, err := parseTarget(path)
		if err != nil {
			return
		}
		text := string(key)
		if strings.ContainsFunc(text, unicode.IsControl) || strings.Contains(text, "..") && strings.Contains("/"+text+"/", "/../") {
			t.Fatalf("%q gives the key %q", path, text)
		}
		again := filesPath + url.PathEscape(text)
		if manifest {
			again += manifestSuffix
		}
		if key2, manifest2, err := parseTarget(again); err != nil || key2 != key || manifest2 != manifest {
			t.Fatalf("%q gives %q, asked for by %q it gives %q, %v", path, key, again, key2, err)
		}
	})
}

// Bodies of peers: whatever is accepted has sane sizes and addresses.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []string{
		`{"size":3,"chunk":16777216,"chunks":["` + strings.Repeat("ab", 32) + `"],"digest":"` + strings.Repeat("ab", 32) + `"}`,
		`{"size":0,"chunk":16777216}`, `{"size":9223372036854775807,"chunk":1}`,
		`{"retry_after_ms":200,"holders":[{"peer":"12D3KooWabc","url":"https://10.0.0.1:4711"}]}`,
		`{"retry_after_ms":9223372036854775807,"holders":[{"peer":"../x","url":"https://h:1/x"},{"peer":"a","url":"file:///etc"}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if manifest, _, err := decodeManifest(data, "lfn:a", -1); err == nil && manifest.Validate() != nil {
			t.Errorf("accepted %+v", manifest)
		}
		wait, others := decodeBusy(data)
		if wait < 0 || wait > maxRetryAfter || len(others) > maxOthers {
			t.Errorf("wait %s, %d others", wait, len(others))
		}
		for _, h := range others {
			parsed, err := url.Parse(targetOf(h.DataURL, task.FileKey("lfn:a/b")))
			if err != nil || parsed.Scheme != "https" || parsed.Hostname() == "" || parsed.User != nil || parsed.EscapedPath() != "/v1/files/lfn:a%2Fb" {
				t.Errorf("accepted %+v", h)
			}
		}
	})
}

func TestCheckHolder(t *testing.T) {
	for holder, good := range map[cache.Holder]bool{
		{Peer: "12D3KooWabc", DataURL: "https://10.0.0.1:4711"}:     true,
		{Peer: "12D3KooWabc", DataURL: "https://[fe80::1]:4711"}:    true,
		{Peer: "12D3KooWabc", DataURL: "https://node7.site.org:80"}: true,
		{Peer: "", DataURL: "https://10.0.0.1:4711"}:                false,
		{Peer: "a b", DataURL: "https://10.0.0.1:4711"}:             false,
		{Peer: "a", DataURL: ""}:                                    false,
		{Peer: "a", DataURL: "http://10.0.0.1:4711"}:                false,
		{Peer: "a", DataURL: "https://10.0.0.1"}:                    false,
		{Peer: "a", DataURL: "https://:4711"}:                       false,
		{Peer: "a", DataURL: "https://10.0.0.1:4711/"}:              false,
		{Peer: "a", DataURL: "https://u:p@10.0.0.1:4711"}:           false,
		{Peer: "a", DataURL: "https://10.0.0.1:4711?x"}:             false,
		{Peer: "a", DataURL: "https://10.0.0.1:4711#x"}:             false,
	} {
		if err := CheckHolder(holder); (err == nil) != good {
			t.Errorf("%+v: %v", holder, err)
		}
	}
}
