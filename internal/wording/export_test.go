package wording

// Kinds are the kinds of the sentences that the tests get from cel-go. The tests need packages that import this one.
func Kinds() (all []Kind) {
	for _, s := range sentences {
		all = append(all, s.kind)
	}
	return all
}
