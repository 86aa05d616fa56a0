package main

// The sources that stand in for packages of which a browser requires nothing but the names.

const flagSource = `// Package flag has the names that a program without a command line refers to.
package flag

type ColonSeparatedMultimapStringString struct{}

func NewColonSeparatedMultimapStringStringAllowDefaultEmptyKey(
	*map[string][]string,
) *ColonSeparatedMultimapStringString {
	return &ColonSeparatedMultimapStringString{}
}

func (*ColonSeparatedMultimapStringString) Set(string) error { return nil }
func (*ColonSeparatedMultimapStringString) String() string   { return "" }
func (*ColonSeparatedMultimapStringString) Type() string     { return "" }
`

const metricsSource = `// Package metrics measures nothing.
package metrics

type StabilityLevel string

const (
	ALPHA StabilityLevel = "ALPHA"
	BETA  StabilityLevel = "BETA"
)

type Registerable any

type HistogramOpts struct {
	Namespace, Subsystem, Name, Help string
	Buckets                          []float64
	StabilityLevel                   StabilityLevel
}

type Histogram struct{ *HistogramOpts }

func NewHistogram(o *HistogramOpts) *Histogram { return &Histogram{o} }

func (*Histogram) Observe(float64) {}

func ExponentialBuckets(float64, float64, int) []float64 { return nil }
`

const registrySource = `// Package legacyregistry registers nothing.
package legacyregistry

func MustRegister(...any) {}
`

const featureSource = `// Package feature records nothing.
package feature

import "context"

func RecordFeatureInfo(context.Context, string, string, bool) {}
`

const compatSource = `// Package compatversion records nothing.
package compatversion

import "context"

func RecordCompatVersionInfo(context.Context, string, string, string, string) {}
`

const timestampSource = `package v1

import "errors"

type Timestamp struct {
	Seconds int64
	Nanos   int32
}

// What fieldsv1.go refers to.
var (
	ErrIntOverflowGenerated   = errors.New("no protocol buffers in a browser")
	ErrInvalidLengthGenerated = ErrIntOverflowGenerated
)

func encodeVarintGenerated([]byte, int, uint64) int { return 0 }
func sovGenerated(uint64) int                       { return 0 }
func skipGenerated([]byte) (int, error)             { return 0, ErrIntOverflowGenerated }
`

const cborSource = `// Package direct reads and writes no CBOR.
package direct

import "errors"

var errNone = errors.New("no CBOR in a browser")

func Marshal(any) ([]byte, error)     { return nil, errNone }
func Unmarshal([]byte, any) error     { return errNone }
func Diagnose([]byte) (string, error) { return "", errNone }
`

const netSource = `// Package net has the names that a program without a network refers to.
package net

func IsProbableEOF(error) bool { return false }
func IsTimeout(error) bool     { return false }
`

const schemaSource = `// Package json reads and writes no schemas.
package json

import (
	"errors"

	"k8s.io/kube-openapi/pkg/internal/third_party/go-json-experiment/json/jsontext"
)

var errNone = errors.New("no OpenAPI documents in a browser")

type Options any

func Deterministic(bool) Options                     { return nil }
func Marshal(any, ...Options) ([]byte, error)        { return nil, errNone }
func MarshalEncode(*jsontext.Encoder, any) error     { return errNone }
func Unmarshal([]byte, any) error                    { return errNone }
func UnmarshalDecode(*jsontext.Decoder, any) error   { return errNone }
`

const schemaTextSource = `// Package jsontext has the names that the types of schemas refer to.
package jsontext

import "errors"

var (
	errNone = errors.New("no OpenAPI documents in a browser")

	Null, False, True Token
)

type (
	Token struct{}
	Kind  byte
	Value []byte

	Decoder struct{}
	Encoder struct{}
)

func (Token) Kind() Kind                   { return 0 }
func (Token) String() string               { return "" }
func (Kind) String() string                { return "" }
func (*Decoder) PeekKind() Kind            { return 0 }
func (*Decoder) ReadToken() (Token, error) { return Token{}, errNone }
func (*Decoder) ReadValue() (Value, error) { return nil, errNone }
func (*Encoder) WriteToken(Token) error    { return errNone }
`

const iteratorSource = `// Package jsoniter has the names that values refer to which are neither read from JSON nor written as JSON.
package jsoniter

import (
	"errors"
	"io"
)

var errNone = errors.New("no managed fields in a browser")

type (
	Config   struct{}
	Iterator struct{ Error error }
	Stream   struct{}
)

var ConfigCompatibleWithStandardLibrary Config

func NewIterator(Config) *Iterator               { return &Iterator{Error: errNone} }
func (i *Iterator) Pool() *Iterator              { return i }
func (i *Iterator) BorrowIterator([]byte) *Iterator { return i }
func (*Iterator) ReturnIterator(*Iterator)       {}
func (*Iterator) Read() interface{} { return nil }
func (*Iterator) WhatIsNext() int                { return 0 }
func (*Iterator) ReportError(string, string)     {}

func NewStream(Config, io.Writer, int) *Stream   { return &Stream{} }
func (s *Stream) Pool() *Stream                  { return s }
func (s *Stream) BorrowStream(io.Writer) *Stream { return s }
func (*Stream) ReturnStream(*Stream)             {}
func (*Stream) WriteVal(interface{}) {}
func (*Stream) Buffer() []byte                   { return nil }
func (*Stream) SetBuffer([]byte)                 {}
func (*Stream) Flush() error                     { return errNone }
`

const httpSource = `// Package http has the names that a program without a network refers to.
package http

import (
	"context"
	"errors"
	"io"
)

var (
	ErrAbortHandler = errors.New("net/http: abort Handler")

	errNone       = errors.New("no network in a browser")
	DefaultClient = &Client{}
)

type (
	Client struct{}
	Header map[string][]string

	Request  struct{ Header Header }
	Response struct {
		Status     string
		StatusCode int
		Body       io.ReadCloser
	}
)

func (Header) Set(string, string)                {}
func (*Request) SetBasicAuth(string, string)     {}
func (*Client) Do(*Request) (*Response, error)   { return nil, errNone }

func NewRequestWithContext(context.Context, string, string, io.Reader) (*Request, error) { return nil, errNone }
`

const deepcopySource = `// Package deepcopy copies values of API types by reflection.
package deepcopy

import (
	"reflect"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
)

// Copy copies what in points to into what out points to.
func Copy(in, out any) { into(reflect.ValueOf(in).Elem(), reflect.ValueOf(out).Elem()) }

func into(in, out reflect.Value) {
	out.Set(in)
	switch in.Kind() {
	case reflect.Pointer:
		if !in.IsNil() {
			out.Set(reflect.New(in.Type().Elem()))
			into(in.Elem(), out.Elem())
		}
	case reflect.Slice:
		if !in.IsNil() {
			out.Set(reflect.MakeSlice(in.Type(), in.Len(), in.Len()))
			for i := range in.Len() {
				into(in.Index(i), out.Index(i))
			}
		}
	case reflect.Map:
		if !in.IsNil() {
			out.Set(reflect.MakeMapWithSize(in.Type(), in.Len()))
			for entry := in.MapRange(); entry.Next(); {
				value := reflect.New(in.Type().Elem()).Elem()
				from := reflect.New(in.Type().Elem()).Elem()
				from.Set(entry.Value())
				into(from, value)
				out.SetMapIndex(entry.Key(), value)
			}
		}
	case reflect.Interface:
		if object, ok := in.Interface().(runtime.Object); ok {
			out.Set(reflect.ValueOf(object.DeepCopyObject()))
		}
	case reflect.Struct:
		if q, ok := in.Addr().Interface().(*resource.Quantity); ok {
			out.Set(reflect.ValueOf(q.DeepCopy()))
			return
		}
		for i := range in.NumField() {
			if in.Type().Field(i).IsExported() {
				into(in.Field(i), out.Field(i))
			}
		}
	}
}
`
