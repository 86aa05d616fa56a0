// Package manifest turns bytes into API objects that know where they were written.
//
// A [Loader] reads files, directories and standard input; [Read] and [Documents] read one stream. YAML and JSON,
// several documents in one file and Lists (v1 List and every <Kind>List) all become a flat sequence of
// [Document]; what cannot be read becomes a [Problem], one line with its place, and does not hide the good
// documents beside it.
//
// # Values
//
// The values are those that kubectl sends: kubectl splits a stream at the lines that start with "---" and decodes
// each part with sigs.k8s.io/yaml, whose scalars are those of YAML 1.1 (yes, on, 0777, 1_000, .inf; a date stays
// text), whose later merge keys win over earlier members, and which turns keys that are numbers or booleans into
// text. A stream that starts with "{" is JSON as long as it parses as JSON. Three things are stricter here: a
// duplicate key, invalid UTF-8 and an infinite number are problems. One is more lenient: JSON documents behind
// the first "---" are read as JSON, so that escapes that YAML does not know (\/, surrogate pairs) work.
//
// # Which documents are objects
//
// A document must be a mapping with apiVersion and kind. In a file that was named directly anything else is a
// problem. In a directory, where such files lie beside manifests (Helm values, a kustomization.yaml without kind),
// a mapping with neither of the two is passed over with a Warning; one with only one of the two is a problem there
// too, because it is likely a typing error. A document without content (nothing, comments, null) is not a document; a
// file with no document at all is a problem, and a Warning in a directory.
//
// # How it is read
//
// Most manifests use a small part of YAML: block mappings and sequences, scalars on one line, literal blocks,
// short flow collections. Package yamlscan decodes exactly that part, over ten times faster than
// the library, and refuses a document at the first thing that it does not know; the library then decodes it. Fuzz
// targets hold the two to the same answer. Places are not recorded while decoding: a Document keeps its text, and
// only when a message needs a place is that text laid out (package layout).
package manifest
