package prepare

import "strconv"

// A place is the path of a field for a warning; nil is the object itself. Warnings are rare, so that its text is seldom
// needed: a place is on the stack until something keeps it.
type place struct {
	in    *place
	name  string
	index int // of an item; -1: none
	key   string
	keyed bool
}

// Child returns the place of a member.
func (p *place) Child(name string) *place { return &place{in: p, name: name, index: -1} }

// Index returns the place of an item of the list at p.
func (p *place) Index(i int) *place { return &place{in: p.in, name: p.name, index: i} }

// Key returns the place of a value of the map at p.
func (p *place) Key(key string) *place {
	return &place{in: p.in, name: p.name, index: -1, key: key, keyed: true}
}

// String returns the path in the server's form (as field.Path in apimachinery).
func (p *place) String() string {
	text := ""
	for ; p != nil; p = p.in {
		step := p.name
		switch {
		case p.keyed:
			step += "[" + p.key + "]"
		case p.index >= 0:
			step += "[" + strconv.Itoa(p.index) + "]"
		}
		if text != "" {
			step += "."
		}
		text = step + text
	}
	return text
}
