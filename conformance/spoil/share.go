package spoil

import (
	_ "embed"
	"encoding/json"
)

// A Share is the share of the server's refusals of a kind that celgate also predicts. False refusals are refusals of
// objects that the server accepts.
type Share struct {
	Kind    string `json:"kind"`
	Asked   int    `json:"asked"`
	Refused int    `json:"refused"` // by the server
	Same    int    `json:"same"`    // of those, by celgate in the same words
	Worded  int    `json:"worded"`  // of those, by celgate in other words
	False   int    `json:"false"`
}

// Misses is how many objects celgate takes that the server refuses.
func (s Share) Misses() int { return s.Refused - s.Same - s.Worded }

// Percent returns the percentage of the server's refusals that celgate predicts.
func (s Share) Percent() float64 {
	if s.Refused == 0 {
		return 100
	}
	return float64(100*(s.Same+s.Worded)) / float64(s.Refused)
}

// A Record is a run of objects on a live server.
type Record struct {
	Seed   uint64  `json:"seed"`
	Shares []Share `json:"shares"`
}

// Total adds up the shares of all kinds.
func (r Record) Total() Share {
	total := Share{Kind: "all"}
	for _, s := range r.Shares {
		total.Asked += s.Asked
		total.Refused += s.Refused
		total.Same += s.Same
		total.Worded += s.Worded
		total.False += s.False
	}
	return total
}

//go:embed totals.json
var recorded []byte

// ReadRecord returns the last run that was kept.
func ReadRecord() (Record, error) {
	var r Record
	return r, json.Unmarshal(recorded, &r)
}
