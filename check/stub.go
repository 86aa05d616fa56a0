package check

var interplay []*Analyzer
