package proxy

import (
	"fmt"
	"strconv"
	"time"
)

// Terms are what of [Options] may change while a server runs: for how long answers may be kept, and who may read them.
// Its fields mean what they mean there.
type Terms struct {
	MaxAge, StaleWhileRevalidate       time.Duration
	CDNMaxAge, CDNStaleWhileRevalidate time.Duration
	StaleIfError                       time.Duration
	HSTS                               time.Duration
	CORSOrigins                        []string
}

func (o *Options) terms() Terms {
	return Terms{
		MaxAge: o.MaxAge, StaleWhileRevalidate: o.StaleWhileRevalidate,
		CDNMaxAge: o.CDNMaxAge, CDNStaleWhileRevalidate: o.CDNStaleWhileRevalidate,
		StaleIfError: o.StaleIfError, HSTS: o.HSTS, CORSOrigins: o.CORSOrigins,
	}
}

func (t *Terms) validate() error {
	for _, d := range []time.Duration{t.MaxAge, t.StaleWhileRevalidate, t.StaleIfError, t.CDNMaxAge, t.CDNStaleWhileRevalidate, t.HSTS} {
		if d < 0 {
			return fmt.Errorf("a duration is negative: %v", d)
		}
	}
	return nil
}

// terms are what Terms come to. A request reads them once, so that its answer is of one mind.
type terms struct {
	policy policy
	cors   cors
	hsts   []byte // nil for none

	varyAccept, varyAcceptEncoding []byte
}

func newTerms(o Terms) (*terms, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	t := &terms{policy: newPolicy(&o), varyAccept: []byte("Accept"), varyAcceptEncoding: []byte("Accept, Accept-Encoding")}
	var err error
	if t.cors, err = newCORS(o.CORSOrigins); err != nil {
		return nil, err
	}
	if o.HSTS > 0 {
		t.hsts = strconv.AppendInt([]byte("max-age="), wholeSeconds(o.HSTS), 10)
	}
	if t.cors.varies() {
		t.varyAccept = append(t.varyAccept, ", Origin"...)
		t.varyAcceptEncoding = append(t.varyAcceptEncoding, ", Origin"...)
	}
	return t, nil
}

// SetTerms replaces the terms, from the next request on. It fails on terms that cannot be, and then changes nothing.
func (s *Server) SetTerms(o Terms) error {
	t, err := newTerms(o)
	if err != nil {
		return fmt.Errorf("proxy: %w", err)
	}
	s.terms.Store(t)
	return nil
}
