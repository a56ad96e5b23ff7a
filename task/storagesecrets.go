package task

import "encoding/json"

// StorageCredential opens one storage element. What is empty is not needed there.
type StorageCredential struct {
	URL         string // of the element: it is shown there and below, nowhere else
	Token       string // bearer token
	Certificate string // of the client, PEM, with its chain
	Key         string // of the certificate, PEM
	Authorities string // that may have signed the server's certificate, PEM; "": the system's
}

// StorageSecrets are credentials as one text that can be compared. It opens by
// Credentials only: printed, logged and written to a file (JSON, gob) it is
// empty, since pilots hold it in memory only.
type StorageSecrets string

// SealStorage makes secrets of credentials; those of none are "".
func SealStorage(credentials []StorageCredential) StorageSecrets {
	if len(credentials) == 0 {
		return ""
	}
	sealed, err := json.Marshal(credentials)
	if err != nil {
		panic("task: texts were refused as JSON: " + err.Error())
	}
	return StorageSecrets(sealed)
}

// Credentials opens the secrets.
func (s StorageSecrets) Credentials() []StorageCredential {
	var credentials []StorageCredential
	if json.Unmarshal([]byte(s), &credentials) != nil {
		return nil // "", which is none
	}
	return credentials
}

// String hides them from fmt.
func (StorageSecrets) String() string { return "(secret)" }

// GoString hides them from %#v.
func (StorageSecrets) GoString() string { return "(secret)" }

// MarshalText keeps them out of JSON.
func (StorageSecrets) MarshalText() ([]byte, error) { return nil, nil }

// UnmarshalText reads none.
func (*StorageSecrets) UnmarshalText([]byte) error { return nil }

// GobEncode keeps them out of a pilot's journal.
func (StorageSecrets) GobEncode() ([]byte, error) { return nil, nil }

// GobDecode reads none.
func (*StorageSecrets) GobDecode([]byte) error { return nil }
