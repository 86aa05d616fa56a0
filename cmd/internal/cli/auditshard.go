package cli

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/celgate/celgate/cmd/internal/kube"
	"github.com/celgate/celgate/cmd/internal/report"
	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// shardValue is the flag of a shard: I/N.
type shardValue struct{ *report.Shard }

// Set parses I/N.
func (s shardValue) Set(text string) error {
	var index, of int
	if n, err := fmt.Sscanf(text+"\n", "%d/%d\n", &index, &of); n != 2 || err != nil || index < 0 || index >= of {
		return errors.New("write I/N: the shard I, from 0 to N-1, of N shards")
	}
	s.Index, s.Of = index, of
	return nil
}

// String implements pflag.Value.
func (s shardValue) String() string {
	if s.Shard == nil || s.Of == 0 {
		return ""
	}
	return s.Shard.String()
}

// Type implements pflag.Value.
func (s shardValue) Type() string { return "string" }

// A deal assigns namespaces to the shards of an audit; "" stands for cluster-scoped objects.
type deal struct {
	PolicySet string     `json:"policySet"`
	Questions string     `json:"questions"`    // a hash of the flags that select the questions
	ID        string     `json:"id,omitempty"` // of this audit only; empty: every shard computes the same deal
	Shards    [][]string `json:"shards"`
}

// dealNamespaces assigns namespaces to shards, the largest first, each to the shard with the fewest objects.
func dealNamespaces(sizes map[string]int, shards int) [][]string {
	names := slices.SortedFunc(maps.Keys(sizes), func(x, y string) int {
		return cmp.Or(sizes[y]-sizes[x], strings.Compare(x, y))
	})
	all, loads := make([][]string, shards), make([]int, shards)
	for _, name := range names {
		least := slices.Index(loads, slices.Min(loads))
		all[least] = append(all[least], name)
		loads[least] += sizes[name]
	}
	return all
}

// parts store what the shards of one audit share: the deal, and a report of each.
type parts interface {
	// agree returns the stored deal. If there is none it stores and returns the result of make.
	agree(ctx context.Context, make func() ([]byte, error)) ([]byte, error)

	// put stores the report of a shard, given as a file.
	put(ctx context.Context, shard int, file string) error

	// name returns a readable name of the report of a shard.
	name(shard int) string

	// open opens the report of a shard. The error is like fs.ErrNotExist if it is not stored yet.
	open(ctx context.Context, shard int) (io.ReadCloser, error)
}

func partName(shard int) string { return fmt.Sprintf("part-%d", shard) }

// A folder stores parts as files.
type folder string

func (f folder) path(name string) string { return filepath.Join(string(f), name+".json") }

func (f folder) agree(_ context.Context, make func() ([]byte, error)) ([]byte, error) {
	text, err := os.ReadFile(f.path("deal"))
	if !errors.Is(err, fs.ErrNotExist) {
		return text, err
	}
	if err := os.MkdirAll(string(f), 0o777); err != nil {
		return nil, err
	}
	if text, err = make(); err != nil {
		return nil, err
	}
	temporary, err := os.CreateTemp(string(f), "deal-*.tmp")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.Remove(temporary.Name()) }()
	_, err = temporary.Write(text)
	if err := errors.Join(err, temporary.Close()); err != nil {
		return nil, err
	}
	// A link is complete when it appears, and never replaces another file.
	if err := os.Link(temporary.Name(), f.path("deal")); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return os.ReadFile(f.path("deal"))
}

func (f folder) put(_ context.Context, shard int, file string) error {
	from, err := os.Open(file)
	if err != nil {
		return err
	}
	defer from.Close()
	temporary, err := os.CreateTemp(string(f), partName(shard)+"-*.tmp")
	if err != nil {
		return err
	}
	_, err = io.Copy(temporary, from)
	if err := errors.Join(err, temporary.Close()); err != nil {
		_ = os.Remove(temporary.Name())
		return err
	}
	return os.Rename(temporary.Name(), f.path(partName(shard)))
}

func (f folder) name(shard int) string { return f.path(partName(shard)) }

func (f folder) open(_ context.Context, shard int) (io.ReadCloser, error) {
	return os.Open(f.path(partName(shard)))
}

// inCluster is the prefix of a value of --parts that names ConfigMaps.
const inCluster = "configmaps:"

// A shelf stores parts in the cluster, compressed.
type shelf struct{ *kube.Parts }

func compress(r io.Reader) ([]byte, error) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := io.Copy(w, r)
	err = errors.Join(err, w.Close())
	return b.Bytes(), err
}

func (s shelf) agree(ctx context.Context, make func() ([]byte, error)) ([]byte, error) {
	read := func() ([]byte, error) {
		r, err := s.read(ctx, "deal")
		if err != nil {
			return nil, err
		}
		return io.ReadAll(r)
	}
	text, err := read()
	if !errors.Is(err, fs.ErrNotExist) {
		return text, err
	}
	if text, err = make(); err != nil {
		return nil, err
	}
	data, err := compress(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	if err := s.Create(ctx, "deal", data); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return read()
}

func (s shelf) put(ctx context.Context, shard int, file string) error {
	from, err := os.Open(file)
	if err != nil {
		return err
	}
	defer from.Close()
	data, err := compress(from)
	if err != nil {
		return err
	}
	return s.Write(ctx, partName(shard), data)
}

func (s shelf) name(shard int) string { return "ConfigMap " + s.Prefix + "-" + partName(shard) }

func (s shelf) open(ctx context.Context, shard int) (io.ReadCloser, error) {
	return s.read(ctx, partName(shard))
}

func (s shelf) read(ctx context.Context, name string) (io.ReadCloser, error) {
	r, err := s.Read(ctx, name)
	if err != nil {
		return nil, err
	}
	return gzip.NewReader(r)
}

// store returns the store of the parts; nil without --parts.
func (a *audit) store() (parts, error) {
	where, found := strings.CutPrefix(a.parts, inCluster)
	switch {
	case a.parts == "":
		return nil, nil
	case !found:
		return folder(a.parts), nil
	}
	client, err := connect(a.live.kubeconfig, a.live.context)
	if err != nil {
		return nil, err
	}
	name, uid, owned := strings.Cut(where, "/")
	p := &kube.Parts{Client: client, Namespace: client.Namespace(), Prefix: name, Labels: report.ReportLabels}
	if owned {
		p.Owner = &metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job", Name: name, UID: types.UID(uid)}
	}
	return shelf{p}, nil
}

// checkShard refuses invalid flags of shards.
func (a *audit) checkShard() error {
	_, toCluster := strings.CutPrefix(a.parts, inCluster)
	switch {
	case a.shard.Of == 0 && a.parts != "":
		return &usageError{errors.New("--parts without --shard")}
	case a.shard.Of == 0:
	case a.log != "":
		return &usageError{errors.New("--shard cannot be combined with an audit log, which is read in order")}
	case a.live != (live{}) && a.parts == "":
		return withHint(&usageError{errors.New("--shard of a live cluster without --parts")},
			"name a place that all shards share with --parts: a directory, or %sNAME", inCluster)
	case toCluster && a.live == (live{}):
		return &usageError{errors.New("--parts in ConfigMaps without a live cluster")}
	}
	return nil
}

// runShard audits the namespaces of a shard and stores the report for the shard that finishes last, which writes the
// outputs of the whole audit.
func (a *audit) runShard(ctx context.Context, of *auditor, from stock) error {
	kept, err := a.store()
	if err != nil {
		return err
	}
	count := func() ([]byte, error) {
		sizes, err := from.sizes(ctx, of)
		if err != nil {
			return nil, err
		}
		d := deal{PolicySet: of.audit.PolicySet, Questions: a.questions(), Shards: dealNamespaces(sizes, a.shard.Of)}
		if kept != nil {
			d.ID = uuid.NewString()
		}
		return json.Marshal(d)
	}
	var text []byte
	if kept == nil {
		text, err = count()
	} else {
		text, err = kept.agree(ctx, count)
	}
	if err != nil {
		return fmt.Errorf("deal namespaces to shards: %w", err)
	}
	var d deal
	switch err := json.Unmarshal(text, &d); {
	case err != nil:
		return withHint(fmt.Errorf("the plan of the shards in %s is damaged: %w", a.parts, err),
			"begin a new audit, with other --parts")
	case len(d.Shards) != a.shard.Of:
		return fmt.Errorf("the audit in %s has %d parts, not %d", a.parts, len(d.Shards), a.shard.Of)
	case d.PolicySet != of.audit.PolicySet:
		return withHint(fmt.Errorf("the policies have changed since the audit in %s began", a.parts),
			"begin a new one, with other --parts")
	case d.Questions != a.questions():
		return withHint(fmt.Errorf("the audit in %s began with other flags", a.parts),
			"use the same for all shards, or begin a new audit with other --parts")
	}
	a.shard.Deal = digest(string(text))
	of.audit.Shard = &a.shard
	of.mine, a.dealt = map[string]bool{}, map[string]bool{}
	for _, namespace := range d.Shards[a.shard.Index] {
		of.mine[namespace] = true
	}
	for _, namespace := range slices.Concat(d.Shards...) {
		a.dealt[namespace] = true
	}
	if kept == nil { // this report is the output
		return a.writeReport(ctx, of, from)
	}
	done, err := a.readPart(ctx, kept, a.shard.Index)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = a.makePart(ctx, of, from, kept)
	case err == nil && !done.Complete():
		err = a.makePart(ctx, of, from, kept) // a part with read errors is tried again
	case err == nil:
		a.say(fmt.Sprintf("part %s has been done already", a.shard), "")
		a.conclude(done.Totals())
	}
	if err != nil {
		return err
	}
	return a.mergeIfLast(ctx, kept)
}

func (a *audit) readPart(ctx context.Context, kept parts, shard int) (*report.StoredAudit, error) {
	part, err := report.ReadAudit(kept.name(shard), func() (io.ReadCloser, error) { return kept.open(ctx, shard) })
	switch is := part.Shard(); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, err
	case err == nil && (is == nil || is.Index != shard || is.Of != a.shard.Of || is.Deal != a.shard.Deal):
		err = fmt.Errorf("%s is not part %s of this audit", kept.name(shard), report.Shard{Index: shard, Of: a.shard.Of})
	}
	if err != nil {
		return nil, withHint(err, "remove it and run the shard again")
	}
	return part, nil
}

// makePart makes the report of a shard.
func (a *audit) makePart(ctx context.Context, of *auditor, from stock, kept parts) error {
	file, err := os.CreateTemp("", "celgate-audit-*.json")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }()
	writer, err := report.NewAuditWriter("json", file, of.audit, report.Options{Set: of.force, Rejected: of.rejected})
	if err != nil {
		return err
	}
	writers := []report.AuditWriter{writer}
	var reports *report.ClusterReports
	if a.write != "" {
		reports = report.NewClusterReports(of.audit, reportKinds[a.write], report.ReportName, time.Now())
		writers = append(writers, unclosed{reports})
	}
	if err := a.judge(ctx, of, from, writers); err != nil {
		return err
	}
	err = writer.Close()
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	if reports != nil { // those of its namespaces; the one of the cluster covers all shards
		a.keepReports(ctx, reports, func(namespace string) bool { return namespace != "" && of.mine[namespace] })
	}
	return kept.put(ctx, a.shard.Index, file.Name())
}

// mergeIfLast writes the outputs if all shards are done.
func (a *audit) mergeIfLast(ctx context.Context, kept parts) error {
	var all []*report.StoredAudit
	for i := range a.shard.Of {
		part, err := a.readPart(ctx, kept, i)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		all = append(all, part)
	}
	if len(all) < a.shard.Of {
		a.say(fmt.Sprintf("part %s is done, %d of %d are: the last one writes the report", a.shard, len(all),
			a.shard.Of), "")
		return nil
	}
	return a.merge(ctx, all)
}

// merge writes the outputs from the findings of all parts.
func (a *audit) merge(ctx context.Context, all []*report.StoredAudit) error {
	of, err := report.MergedAudit(all, a.top)
	if err != nil {
		return err
	}
	if a.last != "" {
		if err := a.compare(of); err != nil {
			return err
		}
	}
	out, err := a.openReport(of, of.Options())
	if err != nil {
		return err
	}
	for _, part := range all {
		if err := of.Absorb(part, out.write); err != nil {
			return err
		}
	}
	if out.kept != nil { // namespaces without objects do not belong to a shard
		a.keepReports(ctx, out.kept, func(namespace string) bool {
			return a.shard.Of == 0 || namespace == "" || !a.dealt[namespace]
		})
	}
	if len(of.Unread)+of.Totals().Failed+len(of.Options().Rejected) > 0 {
		a.raise(exitFailed)
	}
	a.conclude(of.Totals())
	a.concludePolicies(of)
	return out.close()
}

// runMerge merges reports of shards, given as files or directories.
func (a *audit) runMerge(ctx context.Context, paths []string) error {
	switch {
	case len(paths) == 0:
		return &usageError{errors.New("--merge without reports")}
	case len(a.policies)+len(a.state) > 0 || a.live != (live{}) && a.write == "" || a.log != "" || a.shard.Of > 0 ||
		a.since != "":
		return &usageError{errors.New("--merge takes only reports, not policies or objects")}
	}
	if err := a.checkOutputs(); err != nil {
		return err
	}
	var files []string
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if !info.IsDir() {
			files = append(files, path)
			continue
		}
		found, err := filepath.Glob(filepath.Join(path, "part-*.json"))
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return fmt.Errorf("no part-*.json in %s", path)
		}
		files = append(files, found...)
	}
	if err := a.keeps(files...); err != nil {
		return err
	}
	var all []*report.StoredAudit
	for _, file := range files {
		part, err := readReport(file)
		if err != nil {
			return err
		}
		all = append(all, part)
	}
	return a.merge(ctx, all)
}
