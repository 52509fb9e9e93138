package guard

import "testing"

func TestALossIsWorseIfTheOneBeforeDoesNotCoverIt(t *testing.T) {
	loss := func(list string, kind Kind, field string, after int) Finding {
		return Finding{List: list, Kind: kind, Field: field, Before: 100, After: after, Items: 100, Verdict: ForHold}
	}
	artworks, gone := loss("artwork", Shrunk, "", 45), loss("artwork", Emptied, "", 0)
	titles, city := loss("artwork", Vanished, "title", 3), loss("gallery", Vanished, "address.city", 0)
	address := loss("gallery", Vanished, "address", 0)
	warning := Finding{List: "artwork", Kind: Repeated, Before: 100, After: 1, Verdict: Served}
	for name, c := range map[string]struct {
		before, now Findings
		worse       bool
	}{
		"the same":                          {Findings{artworks}, Findings{artworks}, false},
		"none any more":                     {Findings{artworks}, nil, false},
		"fewer are left":                    {Findings{artworks}, Findings{loss("artwork", Shrunk, "", 44)}, true},
		"more are left":                     {Findings{artworks}, Findings{loss("artwork", Shrunk, "", 46)}, false},
		"none are left":                     {Findings{artworks}, Findings{gone}, true},
		"some are left":                     {Findings{gone}, Findings{artworks}, false},
		"and their titles go":               {Findings{artworks}, Findings{artworks, titles}, true},
		"what had gone has no titles":       {Findings{gone}, Findings{artworks, titles}, false},
		"another list":                      {Findings{artworks}, Findings{loss("artist", Shrunk, "", 80)}, true},
		"the other of two is over":          {Findings{artworks, titles}, Findings{titles}, false},
		"what is below a relation":          {Findings{address}, Findings{city}, false},
		"a relation, and not what is below": {Findings{city}, Findings{address}, true},
		"a warning is no loss":              {Findings{artworks}, Findings{artworks, warning}, false},
		"a warning covers none":             {Findings{warning}, Findings{artworks}, true},
	} {
		if worse := c.now.Worse(c.before); worse != c.worse {
			t.Errorf("%s: %v", name, worse)
		}
	}
}

func TestWarningsThatFollowOthers(t *testing.T) {
	warning := func(kind Kind, before, after int, acknowledged bool) Finding {
		return Finding{List: "banners", Kind: kind, Before: before, After: after, Verdict: Served, Acknowledged: acknowledged}
	}
	empty, full := Survey{{Path: "banners"}}, Survey{{Path: "banners", Items: 20}}
	for name, c := range map[string]struct {
		now      Survey
		found    Findings
		before   Findings
		want     Findings
		standing int
	}{
		"still empty":                   {empty, nil, Findings{warning(Emptied, 5, 0, false)}, Findings{warning(Emptied, 5, 0, false)}, 1},
		"still empty, and acknowledged": {empty, nil, Findings{warning(Emptied, 5, 0, true)}, Findings{warning(Emptied, 5, 0, true)}, 0},
		"full again":                    {full, nil, Findings{warning(Emptied, 5, 0, false)}, nil, 0},
		"other ids stand":               {full, nil, Findings{warning(Replaced, 20, 0, false)}, Findings{warning(Replaced, 20, 0, false)}, 1},
		"other ids are acknowledged":    {full, nil, Findings{warning(Replaced, 20, 0, true)}, nil, 0},
		"copies are no more":            {full, nil, Findings{warning(Repeated, 20, 10, false)}, nil, 0},
		"copies are acknowledged":       {full, Findings{warning(Repeated, 20, 10, false)}, Findings{warning(Repeated, 20, 10, true)}, Findings{warning(Repeated, 20, 10, true)}, 0},
		"copies become more":            {full, Findings{warning(Repeated, 20, 9, false)}, Findings{warning(Repeated, 20, 10, true)}, Findings{warning(Repeated, 20, 9, false)}, 1},
	} {
		got := c.found.Follow(c.before, c.now)
		if len(got) != len(c.want) || len(got) > 0 && got[0] != c.want[0] || len(got.Standing()) != c.standing {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
