package manifest

const (
	// maxDocument is the size of one document. The API server takes 3 MiB in one request, so only a List can be
	// larger; 64 MiB hold a dump of about 20,000 objects of a live cluster, and bound what one document can
	// cost in memory.
	maxDocument = 64 << 20

	// maxResumptions is how often reading resumes after a bad value of a JSON stream without separators. Each attempt
	// may read far before it fails.
	maxResumptions = 100

	// binaryProbe is the size of the beginning of a file that is searched for a NUL byte to detect binary files, as git
	// does.
	binaryProbe = 8000

	// batchSize is the size of the text that one goroutine decodes at a time: large enough to amortise its start, small
	// enough to decode a stream while it is read.
	batchSize = 128 << 10

	// The expansion of aliases is bounded by the YAML library: a document may not get more than 99% of its
	// values from aliases, less when it has over 400,000 values (go.yaml.in/yaml/v2 decode.go:
	// allowedAliasRatio). Documents with aliases are always decoded by the library.
)
