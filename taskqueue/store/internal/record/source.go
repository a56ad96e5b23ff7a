package record

import (
	"errors"
	"fmt"
)

var errCutOff = errors.New("the blob is cut off")

// source is a blob that is read from front to back. Strings of a record point
// into its text.
type source struct {
	text  string
	at    int
	depth int // of values that are skipped
}

func (s *source) number() (uint64, error) {
	var n uint64
	for shift := uint(0); s.at < len(s.text); shift += 7 {
		b := s.text[s.at]
		s.at++
		if shift > 63 || shift == 63 && b > 1 {
			return 0, errRange
		}
		n |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return n, nil
		}
	}
	return 0, errCutOff
}

func (s *source) bytes() (string, error) {
	length, err := s.number()
	if err != nil {
		return "", err
	}
	if length > uint64(len(s.text)-s.at) {
		return "", errCutOff
	}
	from := s.at
	s.at += int(length)
	return s.text[from:s.at], nil
}

// count reads the number of values and checks their wire forms. Each value
// takes a byte at least, so that a damaged count cannot ask for much memory.
func (s *source) count(forms ...wire) (int, error) {
	count, got, err := s.head(len(forms))
	if err != nil {
		return 0, err
	}
	for i, form := range forms {
		if wire(got[i]) != form {
			return 0, fmt.Errorf("values have the wire form %d, not %d", got[i], form)
		}
	}
	return count, nil
}

func (s *source) head(forms int) (count int, got string, err error) {
	n, err := s.number()
	if err != nil {
		return 0, "", err
	}
	if n > uint64(len(s.text)-s.at) || len(s.text)-s.at < forms {
		return 0, "", errCutOff
	}
	s.at += forms
	return int(n), s.text[s.at-forms : s.at], nil
}

// maxDepth bounds how deep a skipped value may nest.
const maxDepth = 100

// skip passes over a value of a field that is not known here.
func (s *source) skip(form wire) error {
	s.depth++
	defer func() { s.depth-- }()
	if s.depth > maxDepth {
		return errRange
	}
	switch form {
	case wireNumber:
		_, err := s.number()
		return err
	case wireBytes:
		_, err := s.bytes()
		return err
	case wireTime:
		if _, err := s.number(); err != nil {
			return err
		}
		_, err := s.number()
		return err
	case wireStruct:
		for {
			key, err := s.number()
			if err != nil || key == 0 {
				return err
			}
			if err := s.skip(wire(key & 7)); err != nil {
				return err
			}
		}
	case wireList:
		return s.skipValues(1)
	case wireMap:
		return s.skipValues(2)
	}
	return fmt.Errorf("there is no wire form %d", form)
}

// skipValues passes over a list (1 form) or a map (2 forms).
func (s *source) skipValues(forms int) error {
	count, got, err := s.head(forms)
	if err != nil {
		return err
	}
	for range count {
		for i := range forms {
			if err := s.skip(wire(got[i])); err != nil {
				return err
			}
		}
	}
	return nil
}
