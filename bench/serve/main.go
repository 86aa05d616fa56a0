// Command serve measures celgate serve over TLS on loopback, beside handlers that only decode a review and answer
// "allowed". All run as processes of their own and take turns. It prints a table and then lines NAME NUMBER.
//
// There are two of these handlers, because "decode" has two meanings. One decodes the review with encoding/json and
// leaves the object in it as bytes. The other decodes the review and the object with the decoder of apimachinery into
// the Go types, as controller-runtime does for a webhook.
//
// Another celgate, such as an earlier commit, takes its turns as another side with -beside.
//
//	go -C bench run ./serve [-rate N] [-turn DURATION] [-rounds N] [-beside PROGRAM]
package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

const (
	testdata    = "../internal/webhook/testdata/" // from the folder of the module, as go -C bench runs it
	connections = 64                              // to a side at most
	program     = "celgate"                       // in the folder of a run
)

func main() {
	var b bench
	child := flag.String("child", "", "serve with the certificate of this `folder` at an address, and metrics at another, for the measuring process")
	flag.IntVar(&b.rate, "rate", 1000, "requests a second")
	flag.DurationVar(&b.turn, "turn", 3*time.Second, "how long one turn takes")
	flag.IntVar(&b.rounds, "rounds", 3, "how many turns each side has")
	flag.StringVar(&b.beside, "beside", "", "another celgate `program` to measure as well")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if *child != "" {
		err = serveChild(*child, flag.Arg(0), flag.Arg(1))
	} else {
		err = b.run(ctx, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// The names of the sides, and of their folders.
const (
	reviewOnly = "decodes the review"
	withObject = "decodes review and object"
	policies   = "four policies"
	other      = "four policies, the other celgate"
	thousand   = "thousand"
)

// serveChild is one side: a handler that only decodes, with the certificate of the folder.
func serveChild(folder, address, metrics string) error {
	cert, key := filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")
	var decode func(body []byte) (*admissionv1.AdmissionReview, error)
	switch filepath.Base(folder) {
	case reviewOnly:
		decode = decodeReview
	case withObject:
		var err error
		if decode, err = decodeObject(); err != nil {
			return err
		}
	default:
		return fmt.Errorf("no handler is called %q", filepath.Base(folder))
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	ops := &http.Server{Addr: metrics, Handler: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}),
		ReadHeaderTimeout: time.Minute}
	server := &http.Server{Addr: address, Handler: allow(decode), ReadHeaderTimeout: time.Minute}
	ended := make(chan error)
	go func() { ended <- ops.ListenAndServe() }()
	go func() { ended <- server.ListenAndServeTLS(cert, key) }()
	return <-ended
}

// allow is a webhook that allows everything.
func allow(decode func(body []byte) (*admissionv1.AdmissionReview, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var review *admissionv1.AdmissionReview
		if err == nil {
			review, err = decode(body)
		}
		if err == nil && review.Request == nil {
			err = errors.New("no request")
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer := admissionv1.AdmissionReview{TypeMeta: review.TypeMeta,
			Response: &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	})
}

func decodeReview(body []byte) (*admissionv1.AdmissionReview, error) {
	review := &admissionv1.AdmissionReview{}
	return review, json.Unmarshal(body, review)
}

func decodeObject() (func(body []byte) (*admissionv1.AdmissionReview, error), error) {
	scheme := kruntime.NewScheme()
	if err := errors.Join(admissionv1.AddToScheme(scheme), appsv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	decoder := serializer.NewCodecFactory(scheme).UniversalDeserializer()
	return func(body []byte) (*admissionv1.AdmissionReview, error) {
		review := &admissionv1.AdmissionReview{}
		if _, _, err := decoder.Decode(body, nil, review); err != nil || review.Request == nil {
			return review, err
		}
		_, _, err := decoder.Decode(review.Request.Object.Raw, nil, &appsv1.Deployment{})
		return review, err
	}, nil
}

type bench struct {
	rate, rounds int
	turn         time.Duration
	beside       string // a program; empty for a handler
}

// A side is a process that answers.
type side struct {
	name    string
	patched bool // its answers contain a patch
	review  []byte
	url     string
	metrics string // its own address
	cmd     *exec.Cmd
	client  *http.Client

	paced   []time.Duration // of requests at the rate
	asked   int             // as fast as can be
	elapsed time.Duration
	used    usage // of the process, for those
}

func (b *bench) run(ctx context.Context, out io.Writer) error {
	folder, err := os.MkdirTemp("", "celgate-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	four, err := os.ReadFile(testdata + "four.yaml")
	if err != nil {
		return err
	}
	celgate := filepath.Join(folder, program)
	if out, err := exec.CommandContext(ctx, "go", "build", "-C", "..", "-o", celgate,
		"./cmd/celgate").CombinedOutput(); err != nil {
		return fmt.Errorf("building celgate: %w\n%s", err, out)
	}
	var sides []*side
	runs := []struct{ name, program string }{{reviewOnly, ""}, {withObject, ""}, {policies, celgate}}
	if b.beside != "" {
		runs = append(runs, struct{ name, program string }{other, b.beside})
	}
	for _, run := range runs {
		s, err := start(ctx, folder, run.name, string(four), run.program)
		if err != nil {
			return err
		}
		defer s.stop()
		sides = append(sides, s)
	}
	for round := range b.rounds {
		order := slices.Clone(sides) // there and back, so that none always follows the same one
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, s := range order {
			if err := s.askSteadily(b.rate, b.turn); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
		for _, s := range order {
			if err := s.askFlatOut(b.turn); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	used, err := memoryOfThousand(ctx, folder, string(four))
	if err != nil {
		return err
	}

	loads, _ := os.ReadFile("/proc/loadavg")
	fmt.Fprintf(out, "%s, %s, GOMAXPROCS=%d, load %s", runtime.Version(), cpuName(), runtime.GOMAXPROCS(0), loads)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "side\tp50 at %d/s\tp99 at %[1]d/s\trequests/s at most\tprocessor time of one\tallocated by one\tmemory\n", b.rate)
	for _, s := range sides {
		slices.Sort(s.paced)
		one := s.each()
		held, err := s.memory()
		if err != nil {
			return err
		}
		fmt.Fprintf(table, "%s\t%v\t%v\t%.0f\t%v\t%.0f, %.1f kB\t%d MB\n", s.name, percentile(s.paced, 50), percentile(s.paced, 99),
			float64(s.asked)/s.elapsed.Seconds(), one.cpu.Round(time.Microsecond), one.mallocs, one.bytes/1e3, held/1e6)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	own := sides[2]
	ratio := func(to *side) float64 { return float64(own.each().cpu) / float64(to.each().cpu) }
	if b.beside != "" {
		fmt.Fprintf(out, "ratio-beside %.3f\n", ratio(sides[3]))
	}
	fmt.Fprintf(out, "memory with 1,000 policies: %d MB\n", used/1e6)
	fmt.Fprintf(out, "p99-ms %.2f\n", float64(percentile(own.paced, 99).Microseconds())/1000)
	fmt.Fprintf(out, "ratio-review %.2f\n", ratio(sides[0]))
	fmt.Fprintf(out, "ratio-object %.2f\n", ratio(sides[1]))
	fmt.Fprintf(out, "memory-MB %d\n", used/1e6)
	return nil
}

// usage is the resource use of a process.
type usage struct {
	cpu            time.Duration
	mallocs, bytes float64
}

// each is the usage of one request.
func (s *side) each() usage {
	n := max(s.asked, 1)
	return usage{s.used.cpu / time.Duration(n), s.used.mallocs / float64(n), s.used.bytes / float64(n)}
}

// percentile is a percentile of sorted times.
func percentile(sorted []time.Duration, percent int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, len(sorted)*percent/100)].Round(time.Microsecond)
}

// start starts a side in a folder of its name, and waits until it answers. It is celgate, the program, or
// without one the handler of its name.
func start(ctx context.Context, parent, name, set, program string) (*side, error) {
	folder := filepath.Join(parent, name)
	if err := os.MkdirAll(filepath.Join(folder, "policies"), 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(folder, "policies", "policies.yaml"), []byte(set), 0o600); err != nil {
		return nil, err
	}
	pool, err := certify(folder)
	if err != nil {
		return nil, err
	}
	review, err := os.ReadFile(testdata + "deployment.json")
	if err != nil {
		return nil, err
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	metrics, err := freeAddress()
	if err != nil {
		return nil, err
	}
	s := &side{
		name: name, patched: program != "", review: review, url: "https://" + address, metrics: metrics,
	}
	if program != "" {
		s.cmd = exec.CommandContext(ctx, program, "serve", "--alone", "--policy-dir",
			filepath.Join(folder, "policies"),
			"--listen", address, "--metrics-listen", metrics, "--cert", filepath.Join(folder, "tls.crt"), "--key",
			filepath.Join(folder, "tls.key"))
	} else {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		s.cmd = exec.CommandContext(ctx, self, "-child", folder, address, metrics)
	}
	var stderr bytes.Buffer
	s.cmd.Stderr = &stderr
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	s.client = &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{
			RootCAs:    pool,
			NextProtos: []string{"http/1.1"},
		}, // as the API server calls Services
		MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections, // so that handshakes are not measured
	}}
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if _, err = s.ask(); err == nil {
			return s, nil
		}
		if time.Now().After(end) || ctx.Err() != nil {
			s.stop()
			return nil, fmt.Errorf("%s does not answer: %w\n%s", name, err, stderr.String())
		}
	}
}

// freeAddress returns a free address on loopback.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

func (s *side) stop() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait() // reports that it was killed
}

func (s *side) ask() (time.Duration, error) {
	start := time.Now()
	response, err := s.client.Post(s.url+"/mutate?timeout=10s", "application/json", bytes.NewReader(s.review))
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err
	}
	if response.StatusCode != http.StatusOK || bytes.Contains(body, []byte(`"patch"`)) != s.patched {
		return 0, fmt.Errorf("%s %s", response.Status, body)
	}
	return time.Since(start), nil
}

// askSteadily sends requests at a fixed rate, independent of the answers, and records their times.
func (s *side) askSteadily(rate int, turn time.Duration) error {
	var running sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	begin := time.Now()
	for i := range int(turn.Seconds() * float64(rate)) {
		time.Sleep(time.Until(begin.Add(time.Duration(i) * time.Second / time.Duration(rate))))
		running.Go(func() {
			took, err := s.ask()
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, err)
				return
			}
			s.paced = append(s.paced, took)
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// askFlatOut sends requests as fast as possible, over as many connections as there are processors.
func (s *side) askFlatOut(turn time.Duration) error {
	before, err := s.usage()
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	begin := time.Now()
	for range runtime.GOMAXPROCS(0) {
		running.Go(func() {
			asked := 0
			var err error
			for ; err == nil && time.Since(begin) < turn; asked++ {
				_, err = s.ask()
			}
			mu.Lock()
			defer mu.Unlock()
			s.asked += asked
			errs = append(errs, err)
		})
	}
	running.Wait()
	s.elapsed += time.Since(begin)
	after, err := s.usage()
	s.used.cpu += after.cpu - before.cpu
	s.used.mallocs += after.mallocs - before.mallocs
	s.used.bytes += after.bytes - before.bytes
	return errors.Join(append(errs, err)...)
}

// usage returns the resource use of the process so far: processor time from Linux, memory from its metrics.
func (s *side) usage() (used usage, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		return used, err
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')'):]))
	user, err1 := strconv.Atoi(fields[14-2]) // the name is the second field
	system, err2 := strconv.Atoi(fields[15-2])
	used.cpu = time.Duration(user+system) * time.Second / 100
	response, err := http.Get("http://" + s.metrics + "/metrics")
	if err != nil {
		return used, err
	}
	defer response.Body.Close()
	text, err3 := io.ReadAll(response.Body)
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch name {
		case "go_memstats_mallocs_total":
			used.mallocs, err = strconv.ParseFloat(value, 64)
		case "go_memstats_alloc_bytes_total":
			used.bytes, err = strconv.ParseFloat(value, 64)
		}
	}
	return used, errors.Join(err, err1, err2, err3)
}

// memoryOfThousand is the memory of celgate with 1,000 policies, different in each, after some requests.
func memoryOfThousand(ctx context.Context, folder, four string) (int64, error) {
	var set strings.Builder
	for i := range 250 {
		text := strings.ReplaceAll(four, "metadata: {name: ", fmt.Sprintf("metadata: {name: p%d-", i))
		text = strings.ReplaceAll(text, "{policyName: ", fmt.Sprintf("{policyName: p%d-", i))
		text = strings.ReplaceAll(text, "object.spec", fmt.Sprintf("(%d == 0 ? object : object).spec", i))
		text = strings.ReplaceAll(text, `"web"`, fmt.Sprintf(`"web%d"`, i))
		text = strings.ReplaceAll(text, "resources: [deployments]",
			fmt.Sprintf("resources: [deployments, things%d]", i))
		set.WriteString(text + "\n---\n")
	}
	s, err := start(ctx, folder, thousand, strings.TrimSuffix(set.String(), "---\n"), filepath.Join(folder, program))
	if err != nil {
		return 0, err
	}
	defer s.stop()
	for range 200 {
		if _, err := s.ask(); err != nil {
			return 0, err
		}
	}
	return s.memory()
}

// memory is the most that the process has held.
func (s *side) memory() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok { // at most so far
			kB, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kB << 10, err
		}
	}
	return 0, errors.New("no VmHWM")
}

func cpuName() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown processor"
}

// certify writes a certificate for 127.0.0.1 and returns whom to trust.
func certify(folder string) (*x509.CertPool, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, err
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certificate)
	return pool, errors.Join(
		os.WriteFile(filepath.Join(folder, "tls.crt"), certificate, 0o600),
		os.WriteFile(filepath.Join(folder, "tls.key"),
			pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
}
