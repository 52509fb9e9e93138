package operator

import "vitrine/upstream/shape"

// frame is the part around every page.
type frame struct {
	Title   string
	Nav     []link
	Process *Status
}

// A link is a place to go, or where one is.
type link struct {
	Name, Href string
	Count      int
	Here       bool
}

// newFrame makes the frame of the page at the path here.
func newFrame(title, here string, st *Status) frame {
	f := frame{Title: title, Process: st, Nav: []link{{Name: "Overview", Href: "/", Here: here == "/"}}}
	for _, r := range shape.Resources() {
		href := "/documents/" + string(r)
		f.Nav = append(f.Nav, link{Name: capital(r), Href: href, Here: here == href})
	}
	return f
}
