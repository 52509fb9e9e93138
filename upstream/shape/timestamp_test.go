package shape

import (
	"fmt"
	"testing"
	"time"
)

func TestTimestampsBecomeUTCWithMicroseconds(t *testing.T) {
	for _, c := range []struct {
		in, want string
		kind     Kind
	}{
		{"2023-04-05T06:07:08.123456Z", "2023-04-05T06:07:08.123456Z", ""},
		{"0001-01-01T00:00:00.000000Z", "0001-01-01T00:00:00.000000Z", ""},
		{"9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z", ""},
		{"2024-02-29T00:00:00.000000Z", "2024-02-29T00:00:00.000000Z", ""},
		{"2000-02-29T00:00:00.000000Z", "2000-02-29T00:00:00.000000Z", ""},

		{"2023-04-05T06:07:08Z", "2023-04-05T06:07:08.000000Z", KindTimestamp},
		{"2023-04-05T06:07Z", "2023-04-05T06:07:00.000000Z", KindTimestamp},
		{"2023-04-05T06:07:08.1Z", "2023-04-05T06:07:08.100000Z", KindTimestamp},
		{"2023-04-05T06:07:08.123Z", "2023-04-05T06:07:08.123000Z", KindTimestamp},
		{"2023-04-05T06:07:08,123Z", "2023-04-05T06:07:08.123000Z", KindTimestamp},
		{"2023-04-05T06:07:08,123456Z", "2023-04-05T06:07:08.123456Z", KindTimestamp},
		{"2023-04-05T06:07:08.1234569Z", "2023-04-05T06:07:08.123456Z", KindTimestamp},
		{"2023-04-05T06:07:08.999999999999999999999999Z", "2023-04-05T06:07:08.999999Z", KindTimestamp},
		{"2023-04-05t06:07:08.123456Z", "2023-04-05T06:07:08.123456Z", KindTimestamp},
		{"2023-04-05T06:07:08.123456z", "2023-04-05T06:07:08.123456Z", KindTimestamp},
		{"2023-04-05 06:07:08.123456Z", "2023-04-05T06:07:08.123456Z", KindTimestamp},

		{"2023-04-05T06:07:08+00:00", "2023-04-05T06:07:08.000000Z", KindTimestamp},
		{"2023-04-05T06:07:08-00:00", "2023-04-05T06:07:08.000000Z", KindTimestamp},
		{"2023-04-05T06:07:08.5+02:00", "2023-04-05T04:07:08.500000Z", KindTimestamp},
		{"2023-04-05T06:07:08+0200", "2023-04-05T04:07:08.000000Z", KindTimestamp},
		{"2023-04-05T06:07:08+02", "2023-04-05T04:07:08.000000Z", KindTimestamp},
		{"2023-04-05T06:07:08-0930", "2023-04-05T15:37:08.000000Z", KindTimestamp},
		{"2023-04-05T06:07:08+05:45", "2023-04-05T00:22:08.000000Z", KindTimestamp},
		{"1900-01-01T00:00:00+00:19:32", "1899-12-31T23:40:28.000000Z", KindTimestamp},
		{"2023-01-01T00:30:00+01:00", "2022-12-31T23:30:00.000000Z", KindTimestamp},
		{"2024-02-28T23:30:00-01:00", "2024-02-29T00:30:00.000000Z", KindTimestamp},
		{"0001-01-01T02:00:00+02:00", "0001-01-01T00:00:00.000000Z", KindTimestamp},
		{"9999-12-31T21:59:59.999999-02:00", "9999-12-31T23:59:59.999999Z", KindTimestamp},

		{"2023-04-05T06:07:08.123456", "2023-04-05T06:07:08.123456Z", KindZone},
		{"2023-04-05 06:07", "2023-04-05T06:07:00.000000Z", KindZone},
	} {
		doc, err := Normalize(Banners, []byte(fmt.Sprintf(`[{"id":1,"created_at":%q}]`, c.in)))
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
			continue
		}
		if got := doc.Banners()[0].keys[13]; string(got) != c.want {
			t.Errorf("%s: got %s, want %s", c.in, got, c.want)
		}
		for _, k := range []Kind{KindTimestamp, KindZone} {
			if got := doc.Repairs.Of(k).Count == 1; got != (k == c.kind) {
				t.Errorf("%s: %d repairs of kind %s, want %q", c.in, doc.Repairs.Of(k).Count, k, c.kind)
			}
		}
	}
}

func TestUnreadableTimestampsAreRefused(t *testing.T) {
	for _, in := range []string{
		`1680674828`, `1680674828.5`, `"1680674828"`, `"1680674828000"`, `true`,
		`"2023-04-05"`, `"06:07:08Z"`, `"2023-04-05T"`, `"2023-04-05T06Z"`, `"2023-04-05T06:07:08."`,
		`"2023-04-05T06:07:08.Z"`, `"2023-04-05T06:07.5Z"`, `"2023-04-05T06:07:08.123456ZZ"`,
		`"2023-04-05T06:07:60Z"`, `"2016-12-31T23:59:60Z"`, `"2023-04-05T06:60:08Z"`, `"2023-04-05T24:00:00Z"`,
		`"2023-00-05T06:07:08Z"`, `"2023-13-05T06:07:08Z"`, `"2023-04-00T06:07:08Z"`, `"2023-04-31T06:07:08Z"`,
		`"2023-02-29T06:07:08Z"`, `"1900-02-29T06:07:08Z"`, `"2024-02-30T00:00:00.000000Z"`,
		`"0000-04-05T06:07:08Z"`, `"10000-04-05T06:07:08Z"`, `"-001-04-05T06:07:08Z"`, `"+2023-04-05T06:07:08Z"`,
		`"20230405T060708Z"`, `"2023-W14-3T06:07:08Z"`, `"2023-095T06:07:08Z"`, `"2023-4-5T6:7:8Z"`,
		`"2023-04-05T06:07:08+2"`, `"2023-04-05T06:07:08+2:00"`, `"2023-04-05T06:07:08+02:0"`, `"2023-04-05T06:07:08+02:"`,
		`"2023-04-05T06:07:08+24:00"`, `"2023-04-05T06:07:08-24:00"`, `"2023-04-05T06:07:08+02:60"`, `"2023-04-05T06:07:08-0060"`, `"2023-04-05T06:07:08+02:00:60"`,
		`"2023-04-05T06:07:08+020000"`, `"2023-04-05T06:07:08 +02:00"`,
		`"2023-04-05T06:07:08−02:00"`, `"2023-04-05T06:07:08 Europe/Brussels"`, `" 2023-04-05T06:07:08Z"`, `"2023-04-05T06:07:08Z "`,
		`"٢٠٢٣-04-05T06:07:08Z"`, `"Wed, 05 Apr 2023 06:07:08 GMT"`, `"0000-00-00 00:00:00"`,
	} {
		_, err := Normalize(Banners, []byte(`[{"id":1,"updated_at":`+in+`}]`))
		want := "banners[0].updated_at: want an ISO 8601 timestamp, got " + excerpt([]byte(in))
		if err == nil || err.Error() != want {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
}

func TestTimestampsThatLeaveTheYears1To9999AreRefused(t *testing.T) {
	for _, in := range []string{"0001-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01", "9999-12-31T23:59:59.999999-23:59"} {
		_, err := Normalize(Banners, []byte(fmt.Sprintf(`[{"id":1,"created_at":%q}]`, in)))
		want := fmt.Sprintf("banners[0].created_at: want a timestamp in the years 0001 to 9999 of UTC, got %q", in)
		if err == nil || err.Error() != want {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
}

// FuzzTimestamp holds that what is read is in the documented form, stays as it is when read again,
// and is the instant that the time package reads.
func FuzzTimestamp(f *testing.F) {
	for _, s := range []string{"2023-04-05T06:07:08.123456Z", "2023-04-05 06:07+02", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59,9z"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, repair, ok := parseTimestamp(s)
		if !ok {
			if want, err := time.Parse(timestampLayout, s); err == nil && want.Year() > 0 && want.Format(timestampLayout) == s {
				t.Fatalf("%q is as documented, and was not read", s)
			}
			return
		}
		if (repair == "") != (got.Format(timestampLayout) == s) {
			t.Fatalf("%q is repaired: %q", s, repair)
		}
		if want, err := time.Parse(time.RFC3339Nano, s); err == nil && !want.UTC().Truncate(time.Microsecond).Equal(got) {
			t.Fatalf("%q: got %v, want %v", s, got, want.UTC())
		}
	})
}
