// Package manifest reads API objects from YAML and JSON, with their positions in the text.
//
// A [Loader] reads files, directories and standard input; [Read] and [Documents] read one stream. YAML and JSON,
// several documents in one file and Lists (v1 List and every <Kind>List) all become a flat sequence of [Document]; a
// document that cannot be read becomes a [Problem] with its position, and does not affect the other documents.
//
// # Values
//
// Values are those that kubectl sends: it splits a stream at the lines that start with "---" and decodes each part with
// sigs.k8s.io/yaml, whose scalars are those of YAML 1.1 (yes, on, 0777, 1_000, .inf; a date stays text), whose later
// merge keys take precedence over earlier members, and which converts keys that are numbers or booleans to text. A
// stream that starts with "{" is JSON if it parses as JSON. Three rules are stricter here: a duplicate key, invalid
// UTF-8 and an infinite number are problems. One is more lenient: JSON documents behind the first "---" are read as
// JSON, so that escapes that YAML does not know (\/, surrogate pairs) work.
//
// # Which documents are objects
//
// A document must be a mapping with apiVersion and kind. In a file that was named directly, any other document is a
// problem. In a directory, where other files lie beside manifests (Helm values, a kustomization.yaml without kind), a
// mapping with neither of the two is skipped with a Warning; one with only one of them is a problem there too, because
// it is probably a typing error. A document without content (empty, comments, null) is not a document; a file without
// any document is a problem, and a Warning in a directory.
//
// # How it is read
//
// Most manifests use a small part of YAML: block mappings and sequences, scalars on one line, literal blocks, short
// flow collections. Package yamlscan decodes exactly that part, over ten times faster than the library, and rejects a
// document at the first construct that it does not know; the library then decodes it. Fuzz targets check that both give
// the same result. Positions are not recorded while decoding: a Document keeps its text, and package layout finds
// positions when a message needs one.
package manifest
