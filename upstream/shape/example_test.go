package shape_test

import (
	"fmt"

	"vitrine/upstream/shape"
)

func ExampleNormalize() {
	doc, err := shape.Normalize(shape.Catalogue, []byte(`{
		"artist": null,
		"artwork": [{"id": "41", "title": "Vue de la mer", "description": null, "tag": ["home"], "price": 900}],
		"gallery": []
	}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", doc.Body)
	for _, r := range doc.Repairs {
		fmt.Println(r.Kind, r.Count, r.Paths)
	}
	// Output:
	// {"artist":[],"artwork":[{"id":41,"title":"Vue de la mer","description":"","tag":["home"]}],"gallery":[]}
	// unknown 1 [catalogue.artwork[0].price]
	// null 2 [catalogue.artist catalogue.artwork[0].description]
	// integer 1 [catalogue.artwork[0].id]
}

func ExampleNormalize_refused() {
	_, err := shape.Normalize(shape.Banners, []byte(`[{"id": 1}, {"id": "x"}]`))
	fmt.Println(err)
	// Output: banners[1].id: want an integer, got "x"
}
