package shape

// A field is one row of the table of a documented type: its name, where it is in the struct, and
// its kind. Decoding, encoding, ordering and the OpenAPI schema come from these rows alone.
type field[T any] struct {
	Field
	key     string // as written: "title":
	read    func(*decoder, *T) error
	append  func([]byte, *T) []byte
	compare func(a, b *T) int
}

// Field describes a field of a documented type.
type Field struct {
	Name string
	Type string // integer, text, boolean, timestamp, any, or the name of another type
	List bool   // of these
	Null bool   // null is possible
}

// Type describes a documented type, its fields in the documented order.
type Type struct {
	Name   string
	Fields []Field
}

// kind is how the values of a field are read, written and compared.
type kind[F any] struct {
	Field   // without its name
	read    func(*decoder, *F) error
	append  func([]byte, F) []byte
	compare func(a, b F) int
}

// row makes a row of a table. The compiler checks that the kind fits the field.
func row[T, F any](name string, at func(*T) *F, k kind[F]) field[T] {
	k.Name = name
	return field[T]{
		Field:   k.Field,
		key:     `"` + name + `":`,
		read:    func(d *decoder, v *T) error { return k.read(d, at(v)) },
		append:  func(dst []byte, v *T) []byte { return k.append(dst, *at(v)) },
		compare: func(a, b *T) int { return k.compare(*at(a), *at(b)) },
	}
}

// table has the fields of a type in the documented order. There are at most 31.
type table[T any] struct {
	name   string
	fields []field[T]
	names  []string
}

func tableOf[T any](name string, fields ...field[T]) *table[T] {
	t := &table[T]{name: name, fields: fields}
	for _, f := range fields {
		t.names = append(t.names, f.Name)
	}
	return t
}

func (t *table[T]) describe() Type {
	described := Type{Name: t.name}
	for _, f := range t.fields {
		described.Fields = append(described.Fields, f.Field)
	}
	return described
}

func (t *table[T]) read(d *decoder, v *T) error {
	return d.object(t.names, func(i int) error { return t.fields[i].read(d, v) })
}

func (t *table[T]) append(dst []byte, v *T) []byte {
	dst = append(dst, '{')
	for i := range t.fields {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, t.fields[i].key...)
		dst = t.fields[i].append(dst, v)
	}
	return append(dst, '}')
}

func (t *table[T]) appendList(dst []byte, items []T) []byte {
	dst = append(dst, '[')
	for i := range items {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = t.append(dst, &items[i])
	}
	return append(dst, ']')
}

// listOf is a list of objects; null or nothing is an empty one.
func listOf[T any](t *table[T]) kind[[]T] {
	return kind[[]T]{
		Field:  Field{Type: t.name, List: true},
		read:   func(d *decoder, to *[]T) error { return list(d, to, t.read) },
		append: t.appendList,
	}
}

// relatedList is a listOf that another object refers to.
func relatedList[T any](t *table[T]) kind[[]T] {
	k := listOf(t)
	read := k.read
	k.read = func(d *decoder, to *[]T) error {
		d.unrelated()
		return read(d, to)
	}
	return k
}

// related is an object that another one refers to, or null.
func related[T any](t *table[T]) kind[*T] {
	return kind[*T]{
		Field: Field{Type: t.name, Null: true},
		read: func(d *decoder, to **T) error {
			*to = nil
			d.unrelated()
			if done, err := d.vacant(KindVacant); done || err != nil {
				return err
			}
			v := new(T)
			if err := t.read(d, v); err != nil {
				return err
			}
			*to = v
			return nil
		},
		append: func(dst []byte, v *T) []byte {
			if v == nil {
				return append(dst, "null"...)
			}
			return t.append(dst, v)
		},
	}
}
