package wording

// Kinds are those of the sentences that the tests, which need packages that import this one, ask cel-go for.
func Kinds() (all []Kind) {
	for _, s := range sentences {
		all = append(all, s.kind)
	}
	return all
}
